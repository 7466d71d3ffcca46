package inputfile

import (
	"io/fs"
	"testing"
)

func TestReadableByOthers(t *testing.T) {
	const unit = "/run/credentials/weir-bootstrap@prod-web.service"
	for _, test := range []struct {
		dir, path string
		mode      fs.FileMode
		want      bool
	}{
		{unit, unit + "/nats.nk", 0o440, false}, // as systemd creates it for a unit with User=
		{unit + "/", unit + "/nats.nk", 0o400, false},
		{unit, unit + "/nats.nk", 0o444, true},
		{unit, unit + "/sub/nats.nk", 0o440, true},
		{unit, unit + "-other/nats.nk", 0o440, true},
		{unit, "/etc/weir/nats.nk", 0o440, true},
		{"", "/etc/weir/nats.nk", 0o440, true},
		{"", "/etc/weir/nats.nk", 0o600, false},
	} {
		t.Setenv(CredentialsVariable, test.dir)
		if got := ReadableByOthers(test.path, test.mode); got != test.want {
			t.Errorf("ReadableByOthers(%s, %04o) with the folder %q = %v, want %v", test.path, test.mode, test.dir, got, test.want)
		}
	}
}
