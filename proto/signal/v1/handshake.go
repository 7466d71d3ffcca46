// Package signalv1 is the control plane between bootstrap and a signal that it
// started: the gRPC service Control, generated from control.proto, and the words
// of the go-plugin handshake that comes before it. Both ends import it. It holds
// no state.
package signalv1

// The handshake of go-plugin, as both ends have to know it. A signal in another
// language takes them from here.
const (
	// CookieKey is the variable that is set for a signal that is started as a
	// go-plugin; without it the same program is a plain signal.
	CookieKey = "WEIR_SIGNAL_PLUGIN"

	// CookieValue is the variable's value. It keeps no secret.
	CookieValue = "3c1d0a5e-signal.v1.Control"

	// ProtocolVersion is what is negotiated: which services the plugin has. This
	// one means Control, beside gRPC's health and go-plugin's controller. A plugin
	// may serve go-plugin's stdio too.
	ProtocolVersion = 1

	// PluginName is the name of the plugin that has the service.
	PluginName = "control"

	// CoreVersion is the first field of go-plugin's handshake.
	CoreVersion = 1

	// FolderKey is the variable with the folder for the plugin's socket.
	FolderKey = "PLUGIN_UNIX_SOCKET_DIR"

	// TLSKey is the variable with the certificate of a host that requires TLS.
	TLSKey = "PLUGIN_CLIENT_CERT"

	// HealthService is the name under which a plugin's health is requested.
	HealthService = "plugin"

	// ShutdownService is go-plugin's service whose method Shutdown ends a plugin.
	ShutdownService = "plugin.GRPCController"
)

// Versions and forms of the wire on the signal's socket, as Describe names them.
const (
	WireVersion      = 1
	EncodingJSON     = "json"
	EncodingColumnar = "columnar"
)
