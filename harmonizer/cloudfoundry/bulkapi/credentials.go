package bulkapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// maxSecret bounds a user's name or password, in bytes.
const maxSecret = 1024

// CredentialsSubject is the subject for requests of a Login.
func CredentialsSubject(partition string) string {
	return "cloudcontroller.bulk.credentials." + partition
}

// BusCredentials returns a function that requests the user and password of the cloud controller's bulk API on the bus.
// It returns the first answer, within the timeout. The partition is the cc_partition in the subject.
func BusCredentials(nc *nats.Conn, partition string, timeout time.Duration) Credentials {
	subject := CredentialsSubject(partition)
	return func(ctx context.Context) (Login, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		m, err := bus.Request(ctx, nc, subject, nil)
		if err != nil {
			return Login{}, fmt.Errorf("request %s: %w", subject, err)
		}
		c, err := decodeLogin(m.Data)
		if err != nil {
			return Login{}, fmt.Errorf("request %s: %w", subject, err)
		}
		return c, nil
	}
}

// Login has the user and password for basic authentication at the bulk API.
type Login struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// decodeLogin decodes a Login. Its errors never contain the values.
func decodeLogin(data []byte) (Login, error) {
	var w struct {
		User     json.RawMessage `json:"user"`
		Password json.RawMessage `json:"password"`
	}
	if err := message.Unmarshal(data, &w); err != nil {
		return Login{}, fmt.Errorf("decode credentials: %w", err)
	}
	var f message.Fields
	c := Login{User: secret(&f, "user", w.User), Password: secret(&f, "password", w.Password)}
	if f.Err != nil {
		return Login{}, fmt.Errorf("decode credentials: %w", f.Err)
	}
	return c, nil
}

// secret decodes a required string of bounded size.
func secret(f *message.Fields, field string, raw json.RawMessage) string {
	s := f.Text(field, raw)
	if s == "" {
		f.Fail(field, "is missing")
	}
	if len(s) > maxSecret {
		f.Fail(field, fmt.Sprintf("is longer than %d bytes", maxSecret))
	}
	return s
}
