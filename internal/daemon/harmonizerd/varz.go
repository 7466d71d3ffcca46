package harmonizerd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
)

// varzTimeout is how long /varz waits for the harmonizer.
const varzTimeout = 2 * time.Second

// varz is the response of /varz for collectors.
type varz struct {
	natsbus.Descriptor
	harmonizer.Varz
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

// leadership returns the check of the harmonizer: whether its loop answers, whether it works or stands by for another
// one, and whether it may stop app instances.
func leadership(status func(ctx context.Context, q api.HarmonizerQuery) (api.HarmonizerStatus, error)) admin.Check {
	return admin.Check{Name: "lease", Read: func(ctx context.Context) admin.Result {
		s, err := status(ctx, api.HarmonizerQuery{Totals: true})
		why := s.Unready()
		switch {
		case err != nil:
			return admin.Result{State: admin.Failed, Dead: true, Detail: "the harmonizer does not answer: " + err.Error(), Remedy: "see its log, and restart it if this lasts"}
		case len(why) > 0:
			return admin.Result{State: admin.Failed, Detail: strings.Join(why, "; ")}
		case !s.Leading:
			return admin.Result{State: admin.Standby, Detail: "another harmonizer leads: " + cmp.Or(s.Leader, "unknown")}
		case !s.Complete:
			return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("leads, epoch %d, but stops nothing: %s", s.Epoch, s.Why), Remedy: "see \"weir app status\""}
		case len(s.Unanswered) > 0:
			return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("leads, epoch %d, but no scheduler answers its requests for %d apps, such as %.80q", s.Epoch, s.UnansweredApps, s.Unanswered[0].App),
				Remedy: "start \"weir placer\" for the pool, or see its log"}
		}
		return admin.Result{State: admin.OK, Detail: fmt.Sprintf("leads, epoch %d", s.Epoch)}
	}}
}

// collected adds /varz to mux, with the component's credentials.
func collected(mux *http.ServeMux, c natsbus.Component, h *harmonizer.Harmonizer) {
	mux.HandleFunc("GET /varz", authorized(c, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), varzTimeout)
		defer cancel()
		status, err := h.Status(ctx, api.HarmonizerQuery{Totals: true})
		if err != nil {
			http.Error(w, "read the harmonizer: "+err.Error()+"; try again", http.StatusServiceUnavailable)
			return
		}
		step, pass := h.Durations()
		numbers := harmonizer.NewVarz(status, step, pass, h.Users())
		now := time.Now()
		text, err := json.MarshalIndent(varz{c.Descriptor(now), numbers, processNow(c.Uptime(now))}, "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(text, '\n'))
	}))
}

// authorized refuses requests without the component's credentials.
func authorized(c natsbus.Component, next http.HandlerFunc) http.HandlerFunc {
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
