package release

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestFlightsShareOneFetch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		end     bool // the first caller's context ends
		fetches int
		want    error // of the second caller
	}{
		{"others get its result", false, 1, ErrUnavailable},
		{"a cancelled fetch does not fail the others", true, 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all flights
				first, cancel := context.WithCancel(t.Context())
				defer cancel()
				land, fetches := make(chan struct{}), 0
				go all.share(first, "key", func() (Installed, error) {
					fetches++
					<-land
					return Installed{}, ErrUnavailable
				})
				synctest.Wait()
				second := make(chan error)
				go func() {
					_, err := all.share(t.Context(), "key", func() (Installed, error) { fetches++; return Installed{}, nil })
					second <- err
				}()
				synctest.Wait()
				if tt.end {
					cancel()
				}
				close(land)
				if err := <-second; !errors.Is(err, tt.want) || fetches != tt.fetches {
					t.Errorf("%d fetches and %v, want %d and %v", fetches, err, tt.fetches, tt.want)
				}
				for key := range all.byKey.Range {
					t.Errorf("left: %v", key)
				}
			})
		})
	}
}
