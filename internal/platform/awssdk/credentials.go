package awssdk

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// SharedFiles returns the SDK's paths of the shared credentials file and the shared configuration file. They need not
// exist.
func SharedFiles() []string {
	return []string{
		homeFile("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
		homeFile("AWS_CONFIG_FILE", ".aws/config"),
	}
}

// homeFile returns the file from an environment variable, or one below the home folder. It returns "" without a home
// folder.
func homeFile(variable, below string) string {
	if file := os.Getenv(variable); file != "" {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, below)
}

// fileState detects a change of a file without reading it. Zero: the file is unreadable.
type fileState struct {
	file     os.FileInfo
	modified time.Time
	size     int64 // bytes
}

// same reports whether both describe one unchanged file.
func (s fileState) same(other fileState) bool {
	if s.file == nil || other.file == nil {
		return s.file == nil && other.file == nil
	}
	return os.SameFile(s.file, other.file) && s.modified.Equal(other.modified) && s.size == other.size
}

func stateOf(files []string) [2]fileState {
	var states [2]fileState
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			states[i] = fileState{file: info, modified: info.ModTime(), size: info.Size()}
		}
	}
	return states
}

// credentialSource returns the credentials of each request and follows the files that they come from.
type credentialSource struct {
	keys Keys // may be nil
	load []func(*config.LoadOptions) error

	mu    sync.Mutex
	chain aws.CredentialsProvider // the SDK's; it caches
	seen  [2]fileState            // shared files when chain was loaded
}

// Retrieve implements aws.CredentialsProvider. It takes at most CredentialsTimeout. Its errors have type
// *CredentialsError.
func (s *credentialSource) Retrieve(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, CredentialsTimeout)
	defer cancel()
	if s.keys != nil {
		access, secret, err := s.keys()
		if err != nil {
			return aws.Credentials{}, &CredentialsError{Err: err, Given: true}
		}
		if access != "" {
			return aws.Credentials{AccessKeyID: access, SecretAccessKey: secret, Source: "access_key_file"}, nil
		}
	}
	chain, err := s.follow(ctx)
	if err != nil {
		return aws.Credentials{}, &CredentialsError{Err: err}
	}
	found, err := chain.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, &CredentialsError{Err: err}
	}
	return found, nil
}

// given reports whether Config.Keys returns keys or an error now.
func (s *credentialSource) given() bool {
	if s.keys == nil {
		return false
	}
	access, _, err := s.keys()
	return access != "" || err != nil
}

// follow returns the SDK's chain of credentials. If a shared file changed, it loads a new chain.
func (s *credentialSource) follow(ctx context.Context) (aws.CredentialsProvider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := stateOf(SharedFiles()); s.chain != nil && now[0].same(s.seen[0]) && now[1].same(s.seen[1]) {
		return s.chain, nil
	}
	_, err := s.reload(ctx)
	return s.chain, err
}

// reload reads the SDK's files and environment. The caller holds mu, or has the only reference to s.
func (s *credentialSource) reload(ctx context.Context) (aws.Config, error) {
	seen := stateOf(SharedFiles())
	loaded, err := config.LoadDefaultConfig(ctx, s.load...)
	if err != nil {
		return aws.Config{}, err
	}
	s.chain, s.seen = loaded.Credentials, seen
	return loaded, nil
}

// CredentialsError is the error of a request without credentials.
type CredentialsError struct {
	Err error
	// Given: Config.Keys failed, so keys may exist but are unreadable now.
	Given bool
}

func (e *CredentialsError) Error() string { return "no credentials: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CredentialsError) Unwrap() error { return e.Err }
