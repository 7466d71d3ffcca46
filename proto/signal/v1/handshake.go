// Package signalv1 is the control connection between bootstrap and a signal: the gRPC service Control, generated from
// control.proto, and the constants of the preceding go-plugin handshake. Both ends import it. It has no state.
//
// The SDK of signals and bootstrap use it, and authors of signals in other languages read the file. Generated code
// may be used concurrently as gRPC states.
package signalv1

// The handshake of go-plugin. A signal in another language copies these constants.
const (
	// CookieKey is the variable that is set for a signal started as a go-plugin. Without it, the same program is a
	// plain signal.
	CookieKey = "WEIR_SIGNAL_PLUGIN"

	// CookieValue is the variable's value. It is not a secret.
	CookieValue = "3c1d0a5e-signal.v1.Control"

	// ProtocolVersion is the negotiated version, which determines the plugin's services. This one has Control, gRPC's
	// health and go-plugin's controller. A plugin may serve go-plugin's stdio too.
	ProtocolVersion = 1

	// PluginName is the name of the plugin with the service.
	PluginName = "control"

	// CoreVersion is the first field of go-plugin's handshake.
	CoreVersion = 1

	// FolderKey is the variable for the folder of the plugin's socket.
	FolderKey = "PLUGIN_UNIX_SOCKET_DIR"

	// TLSKey is the variable for the certificate of a host that requires TLS.
	TLSKey = "PLUGIN_CLIENT_CERT"

	// HealthService is the service name in a health request.
	HealthService = "plugin"

	// ShutdownService is go-plugin's service with the method Shutdown, which ends a plugin.
	ShutdownService = "plugin.GRPCController"
)

// Versions and encodings of the wire on the signal's socket, as Describe returns them.
const (
	WireVersion      = 1
	EncodingJSON     = "json"
	EncodingColumnar = "columnar"
)
