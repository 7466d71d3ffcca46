package keyfile

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/scrypt"
)

// encryptKey encrypts a private key as minisign does, with cheaper parameters.
func encryptKey(t *testing.T, password string, plain []byte) []byte {
	t.Helper()
	comment, line, _ := bytes.Cut(plain, []byte("\n"))
	data, err := base64.StdEncoding.DecodeString(string(line))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := scrypt.Key([]byte(password), data[6:38], 1024, 8, 1, 104)
	if err != nil {
		t.Fatal(err)
	}
	tag := blake2b.Sum256(append([]byte("Ed"), data[54:126]...))
	copy(data[2:], "Sc")
	binary.LittleEndian.PutUint64(data[38:], 1<<15) // operations
	binary.LittleEndian.PutUint64(data[46:], 1<<20) // memory
	copy(data[126:], tag[:])
	subtle.XORBytes(data[54:], data[54:], stream)
	return fmt.Appendf(nil, "%s\n%s\n", comment, base64.StdEncoding.EncodeToString(data))
}

func TestKeyFiles(t *testing.T) {
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte, err error) string {
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	plainText, err := private.MarshalText()
	plain := write("plain", plainText, err)
	encrypted := write("encrypted", encryptKey(t, "secret", plainText), err)
	pub, err := public.MarshalText()
	pubFile := write("pub", append(pub, '\n'), err)
	long := write("long", bytes.Repeat([]byte("x"), 5000), nil)

	password := func(p string) func() (string, error) { return func() (string, error) { return p, nil } }
	for _, tc := range []struct {
		name, path string
		password   func() (string, error)
		ok         bool
		want       error
	}{
		{"plain", plain, nil, true, nil},
		{"encrypted", encrypted, password("secret"), true, nil},
		{"encrypted, wrong password", encrypted, password("wrong"), false, errPassword},
		{"encrypted, no password", encrypted, nil, false, errPassword},
		{"encrypted, cannot ask", encrypted, func() (string, error) { return "", os.ErrClosed }, false, os.ErrClosed},
		{"a public key", pubFile, nil, false, nil},
		{"too long", long, nil, false, nil},
		{"not there", filepath.Join(dir, "zzz"), nil, false, os.ErrNotExist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, err := LoadPrivate(tc.path, tc.password)
			if (err == nil) != tc.ok || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("LoadPrivate = %v, want %v", err, tc.want)
			}
			if tc.ok && !key.Equal(private) {
				t.Error("LoadPrivate gives another key")
			}
		})
	}
	for name, load := range map[string]func() (minisign.PublicKey, error){
		"file": func() (minisign.PublicKey, error) { return LoadPublic(pubFile) },
		"line": func() (minisign.PublicKey, error) { return ParsePublic(public.String()) },
	} {
		if key, err := load(); err != nil || !key.Equal(public) {
			t.Errorf("public key from a %s = %v, %v", name, key, err)
		}
	}
	if _, err := LoadPublic(plain); err == nil {
		t.Error("LoadPublic of a private key = nil, want an error")
	}
}
