package inputfile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// CredentialsVariable is the variable with the folder of the credentials that systemd gives a unit (LoadCredential=).
const CredentialsVariable = "CREDENTIALS_DIRECTORY"

// ReadableByOthers reports whether users other than the owner of the file may read a secret in it. Group bits of a file
// in the folder of the unit's credentials do not count: there they are the mask of the access control list, by which
// systemd gives the file to the user of the unit alone.
func ReadableByOthers(path string, mode fs.FileMode) bool {
	const others, all fs.FileMode = 0o007, 0o077
	if dir := os.Getenv(CredentialsVariable); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		return mode.Perm()&others != 0
	}
	return mode.Perm()&all != 0
}
