// Package keyfile reads minisign keys, which sign releases: a .pub file or its base64 line, and a private key,
// encrypted or not.
//
// All functions may be called concurrently.
//
// [LoadPublic] reads the key of a signer for verification. [LoadPrivate] reads the key for publishing. Files have
// a bounded size.
package keyfile

import (
	"bytes"
	"errors"
	"fmt"

	"aead.dev/minisign"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

const maxKey = 4 << 10 // maximum size of a key file in bytes

// errPassword: a private key is encrypted, and the password is missing or wrong.
var errPassword = errors.New("wrong password of the private key")

// FormatID returns the id of a minisign key in minisign's format.
func FormatID(id uint64) string { return fmt.Sprintf("%016X", id) }

// ParsePublic parses a minisign public key: its base64 line, or the content of a .pub file.
func ParsePublic(text string) (minisign.PublicKey, error) {
	var key minisign.PublicKey
	if err := key.UnmarshalText(bytes.TrimSpace([]byte(text))); err != nil {
		// Do not repeat the text: it may be a private key.
		return key, fmt.Errorf("want a minisign public key, as in a .pub file: %w", err)
	}
	return key, nil
}

// LoadPublic reads a .pub file.
func LoadPublic(path string) (minisign.PublicKey, error) {
	data, err := read(path)
	if err != nil {
		return minisign.PublicKey{}, fmt.Errorf("load the public key: %w", err)
	}
	key, err := ParsePublic(string(data))
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// LoadPrivate reads a minisign private key. It calls password only if the key is encrypted. If password is nil or
// wrong, it returns errPassword.
func LoadPrivate(path string, password func() (string, error)) (minisign.PrivateKey, error) {
	data, err := read(path)
	if err != nil {
		return minisign.PrivateKey{}, fmt.Errorf("load the private key: %w", err)
	}
	key, err := parsePrivate(data, password)
	if err != nil {
		return minisign.PrivateKey{}, fmt.Errorf("private key %s: %w", path, err)
	}
	return key, nil
}

func parsePrivate(data []byte, password func() (string, error)) (key minisign.PrivateKey, err error) {
	data = bytes.TrimSpace(data)
	if !minisign.IsEncrypted(data) {
		if err := key.UnmarshalText(data); err != nil {
			return key, fmt.Errorf("want a minisign private key, as \"weir release keygen\" writes it: %w", err)
		}
		return key, nil
	}
	if password == nil {
		return key, fmt.Errorf("%w: it is encrypted, and no password is given", errPassword)
	}
	secret, err := password()
	if err != nil {
		return key, fmt.Errorf("read its password: %w", err)
	}
	if key, err = minisign.DecryptKey(secret, data); err != nil {
		return key, fmt.Errorf("%w: %w", errPassword, err)
	}
	return key, nil
}

func read(path string) ([]byte, error) {
	data, err := inputfile.Read(path, maxKey)
	if err == nil && len(data) > maxKey {
		err = fmt.Errorf("%s has more than %d bytes and is not a key: name the file of a minisign key", path, maxKey)
	}
	return data, err
}
