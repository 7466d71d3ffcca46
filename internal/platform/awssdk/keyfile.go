package awssdk

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

// KeysOf returns a source of the keys in a file, a JSON object of accessKeyId and secretAccessKey. Without a file, or if
// AWS_PROFILE or AWS_WEB_IDENTITY_TOKEN_FILE is set, it returns empty keys. Then the SDK finds its own.
func KeysOf(file string) Keys {
	if file == "" || os.Getenv("AWS_PROFILE") != "" || os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" {
		return Fixed("", "")
	}
	return func() (access, secret string, err error) { return readAccessKeys(file) }
}

// maxAccessKeys bounds the file of the keys, in bytes. A longer file is cut off and is then not JSON.
const maxAccessKeys = 64 << 10

// readAccessKeys reads a key file in boto's JSON form.
func readAccessKeys(file string) (access, secret string, err error) {
	data, err := inputfile.Read(file, maxAccessKeys)
	if err != nil {
		return "", "", fmt.Errorf("aws.access_key_file: %w", err)
	}
	var keys struct {
		Access string `json:"accessKeyId"`
		Secret string `json:"secretAccessKey"`
	}
	if err := json.Unmarshal(data, &keys); err != nil || keys.Access == "" || keys.Secret == "" {
		return "", "", fmt.Errorf("aws.access_key_file %s: want a JSON object of accessKeyId and secretAccessKey", file)
	}
	return keys.Access, keys.Secret, nil
}
