package signaltest

import "testing"

func TestSimilar(t *testing.T) {
	w := socketArgs{"ns", "RANDOM", "app"}
	const head = "Num       RefCount Protocol Flags    Type St Inode Path\n" +
		"0000000000000000: 00000002 00000000 00010000 0001 01 21 @other\n" +
		"0000000000000000: 00000003 00000000 00000000 0001 03 22\n\n"
	for _, test := range []struct{ name, line, want string }{
		{"none", "", ""},
		{"NUL at the end", "0000000000000000: 00000002 00000000 00010000 0001 01 23 @ns-RANDOM-app-socket@\n", "@ns-RANDOM-app-socket@"},
		{"a file", "0000000000000000: 00000002 00000000 00010000 0001 01 23 /tmp/ns-RANDOM-app-socket\n", "/tmp/ns-RANDOM-app-socket"},
		{"a client, without a name", "0000000000000000: 00000002 00000000 00010000 0001 03 RANDOM\n", ""},
	} {
		if got := w.similar(head + test.line); got != test.want {
			t.Errorf("%s: similar = %q, want %q", test.name, got, test.want)
		}
	}
}
