package release

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"runtime/debug"
)

const (
	ourModule      = "github.com/weirkeeper/weirkeeper"
	pluginProtocol = 1 // version of the control service that signals/plugin implements
)

// pluginMain is a function of the SDK that every Go plugin calls. Its name is in the executable, stripped or not,
// because stack traces need it.
const pluginMain = ourModule + "/signals/plugin.Main"

// detect sets the manifest's SDK and Protocol, if unset, from the build information in a Go executable. It executes
// nothing. For other files it leaves them unset.
func detect(path string, m Manifest) (Manifest, error) {
	if m.SDK != "" && m.Protocol != 0 {
		return m, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil // packing returns a better error
	}
	if err != nil {
		return m, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return m, err
	}
	info, err := buildinfo.Read(f)
	if err != nil {
		return m, nil
	}
	version, ok := sdkVersion(info)
	if !ok {
		return m, nil
	}
	calls, err := contains(io.NewSectionReader(f, 0, maxUnpacked), []byte(pluginMain))
	if err != nil || !calls {
		return m, err
	}
	m.SDK = cmp.Or(m.SDK, "weirkeeper "+version)
	m.Protocol = cmp.Or(m.Protocol, pluginProtocol)
	return m, nil
}

// sdkVersion returns the version of the SDK's module in an executable.
func sdkVersion(info *debug.BuildInfo) (version string, ok bool) {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != ourModule {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		return cmp.Or(m.Version, "(devel)"), true
	}
	return "", false
}

func contains(r io.Reader, what []byte) (bool, error) {
	buf := make([]byte, 1<<20)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		if bytes.Contains(buf[:kept+n], what) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		end := kept + n
		kept = copy(buf, buf[max(0, end-len(what)+1):end])
	}
}
