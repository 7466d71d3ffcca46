package bulkapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
)

// Users requests the number of users. It does not affect the apps.
func (s *Source) Users(ctx context.Context) (int, error) {
	users := 0
	err := s.api.getWithRetries(ctx, query{path: "bulk/counts", params: url.Values{"model": {"user"}}, take: func(r io.Reader) (err error) {
		users, err = readUsers(r)
		return err
	}})
	return users, err
}

func readUsers(r io.Reader) (int, error) {
	var answer struct {
		Counts struct {
			User *int `json:"user"`
		} `json:"counts"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return 0, fmt.Errorf("%w: %w", errBadAnswer, err)
		}
		return 0, wrapJSON(err)
	}
	if n := answer.Counts.User; n != nil && *n >= 0 {
		return *n, nil
	}
	return 0, fmt.Errorf("%w: the number of users is missing", errBadAnswer)
}
