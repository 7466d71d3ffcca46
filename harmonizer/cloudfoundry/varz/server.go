package varz

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
)

// timeout is how long /varz waits for the harmonizer.
const timeout = 2 * time.Second

// response is the response of /varz for collectors.
type response struct {
	cloudfoundry.Descriptor
	numbers
	process
}

// process has figures of this process and its machine.
type process struct {
	Cores     int            `json:"num_cores"`
	CPU       float64        `json:"cpu"` // percent of a core, since the start
	Load      float64        `json:"cpu_load_avg"`
	Mem       uint64         `json:"mem_bytes"`
	MemUsed   uint64         `json:"mem_used_bytes"` // of the machine
	MemFree   uint64         `json:"mem_free_bytes"` // of the machine
	LogCounts map[string]int `json:"log_counts"`     // always empty
}

// Harmonizer is the source of the numbers.
type Harmonizer interface {
	Status(ctx context.Context, q api.HarmonizerQuery) (api.HarmonizerStatus, error)
	Durations() (step, pass time.Duration)
}

// Handler returns the handler of /varz, which requires the component's credentials. Users may be nil.
func Handler(c cloudfoundry.Component, h Harmonizer, users *cloudfoundry.Users) http.Handler {
	return authorized(c, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		status, err := h.Status(ctx, api.HarmonizerQuery{Totals: true})
		if err != nil {
			http.Error(w, "read the harmonizer: "+err.Error()+"; try again", http.StatusServiceUnavailable)
			return
		}
		step, pass := h.Durations()
		now := time.Now()
		text, err := json.MarshalIndent(response{c.Descriptor(now), numbersOf(status, step, pass, users.Number()), processNow(c.Uptime(now))}, "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(text, '\n'))
	})
}

// authorized refuses requests without the component's credentials.
func authorized(c cloudfoundry.Component, next http.HandlerFunc) http.HandlerFunc {
	same := func(a, b string) int {
		x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
		return subtle.ConstantTimeCompare(x[:], y[:])
	}
	return func(w http.ResponseWriter, r *http.Request) {
		user, password, given := r.BasicAuth()
		if !given || same(user, c.User)&same(password, c.Password) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="weir harmonizer"`)
			http.Error(w, "want the user and password that the component announces on vcap.component.announce", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// processNow reads the figures of this process. Unavailable figures are 0.
func processNow(up time.Duration) process {
	p := process{Cores: runtime.NumCPU(), LogCounts: map[string]int{}}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil && up > 0 {
		used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		p.CPU = 100 * used.Seconds() / up.Seconds()
	}
	var system syscall.Sysinfo_t
	if err := syscall.Sysinfo(&system); err == nil {
		unit := uint64(system.Unit)
		p.MemFree = uint64(system.Freeram) * unit
		p.MemUsed = uint64(system.Totalram)*unit - p.MemFree
		p.Load = float64(system.Loads[0]) / (1 << 16)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident uint64
		if _, err := fmt.Sscan(string(text), &size, &resident); err == nil {
			p.Mem = resident * uint64(os.Getpagesize())
		}
	}
	return p
}
