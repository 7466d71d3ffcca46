package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// passage is a place between two processes of a twin's talk with the world: a
// request that arrives, or its answer on its way back.
type passage struct {
	at     string // what receives a request, as in the doors' names
	after  string // only after this one, if it is not empty
	answer bool   // the answer, not the request
}

func (m passage) String() string {
	text := m.at
	if m.after != "" {
		text += ", after " + m.after
	}
	if m.answer {
		return text + ": its answer"
	}
	return text
}

// fate is what becomes of the message at which a twin was halted.
type fate int

const (
	fateArrives fate = iota // it arrives while the twin is stopped
	fateLate                // it arrives when the other twin has done the work
	fateLost                // the connection is cut in its place
)

// trap halts a twin at a passage.
type trap struct {
	passage
	fate fate
	do   func() // before it is halted; may be nil

	begun   bool          // what it comes after was seen
	sprung  bool          // guarded by the gate, as begun is
	halted  chan struct{} // closed when the twin is stopped
	release chan struct{} // closed when a message that is late may arrive
	once    sync.Once     // of that
}

// let has a message that is late arrive.
func (t *trap) let() { t.once.Do(func() { close(t.release) }) }

// gate is where all messages of one twin pass. It halts the twin at its trap.
type gate struct {
	tb   testing.TB
	halt func() // the twin is stopped when it returns

	mu   sync.Mutex
	trap *trap
}

func (g *gate) arm(m passage, f fate, do func()) *trap {
	t := &trap{passage: m, fate: f, do: do, halted: make(chan struct{}), release: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trap = t
	return t
}

// disarm forwards everything.
func (g *gate) disarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.trap != nil {
		g.trap.let()
	}
	g.trap = nil
}

// caught returns the trap if this message springs it.
func (g *gate) caught(name string, answer bool) *trap {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.trap
	switch {
	case t == nil || t.sprung:
		return nil
	case t.after != "" && !t.begun:
		t.begun = name == t.after && !answer
		return nil
	case name != t.at || answer != t.answer:
		return nil
	}
	t.sprung = true
	return t
}

// pass forwards a message, now or later, or reports that it is lost.
func (g *gate) pass(name string, answer bool) bool {
	t := g.caught(name, answer)
	if t == nil {
		return true
	}
	if t.do != nil {
		t.do()
	}
	g.halt()
	close(t.halted)
	if t.fate == fateLate {
		<-t.release
	}
	return t.fate != fateLost
}

// write is a request of a twin that changes something at the provider.
type write struct {
	at      time.Time
	action  string
	subject string // the instance, or the target
	halted  bool   // it came while the twin was stopped
}

// cloudDoor is the provider as one twin reaches it.
type cloudDoor struct {
	gate   *gate
	server http.Handler
	still  func() bool // the twin is stopped
	http   *httptest.Server

	mu     sync.Mutex
	calls  int
	writes []write
}

func (d *cloudDoor) log() (calls int, writes []write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls, append([]write(nil), d.writes...)
}

func (d *cloudDoor) note(form url.Values) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if action := form.Get("Action"); !strings.HasPrefix(action, "Describe") {
		subject := form.Get("InstanceId") + form.Get("DesiredCapacity")
		d.writes = append(d.writes, write{time.Now(), action, subject, d.still()})
	}
}

func (d *cloudDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.note(form)
	if !d.gate.pass(form.Get("Action"), false) {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	d.server.ServeHTTP(answer, r)
	if !d.gate.pass(form.Get("Action"), true) {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// busDoor is NATS as one twin reaches it. It can be cut.
type busDoor struct {
	gate    *gate
	cluster string
	server  string // address
	listen  net.Listener
	wg      sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func openBusDoor(tb testing.TB, g *gate, cluster, server string) *busDoor {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	d := &busDoor{gate: g, cluster: cluster, server: server, listen: l}
	d.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.connect(c)
		}
	})
	return d
}

func (d *busDoor) close() {
	d.listen.Close()
	d.setCut(true)
	d.wg.Wait()
}

// setCut ends all connections and refuses new ones, or accepts them again.
func (d *busDoor) setCut(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = on
	if on {
		for _, c := range d.conns {
			c.Close()
		}
		d.conns = nil
	}
}

func (d *busDoor) connect(client net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		client.Close()
		return
	}
	server, err := net.Dial("tcp", d.server)
	if err != nil {
		client.Close()
		return
	}
	d.conns = append(d.conns, client, server)
	requested := &askedFor{names: map[string]string{}}
	d.wg.Go(func() { d.pump(client, server, requested, false) })
	d.wg.Go(func() { d.pump(server, client, requested, true) })
}

// askedFor is under which names answers come.
type askedFor struct {
	mu    sync.Mutex
	names map[string]string // by the subject of the answer
}

func (a *askedFor) put(reply, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[reply] = name
}

func (a *askedFor) take(reply string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.names, reply)
	return a.names[reply]
}

// pump hands on one protocol message after the other.
func (d *busDoor) pump(from, to net.Conn, requested *askedFor, answers bool) {
	defer from.Close()
	defer to.Close()
	in := bufio.NewReader(from)
	for {
		f, err := readFrame(in)
		if err != nil {
			return
		}
		name := ""
		switch {
		case answers && f.subject != "":
			name = requested.take(f.subject)
		case f.subject != "":
			if name = d.name(f); name != "" && f.reply != "" {
				requested.put(f.reply, name)
			}
		}
		if name != "" && !d.gate.pass(name, answers) {
			return
		}
		if _, err := to.Write(f.bytes); err != nil {
			return
		}
	}
}

var (
	stateOfRecord = regexp.MustCompile(`"state":"(\w+)"`)
	endAccepted   = regexp.MustCompile(`"end_accepted":`)
)

// name is what a message of the twin is called in the moments; empty if it is not counted.
func (d *busDoor) name(f frame) string {
	bucket := names.PoolBucket(d.cluster, "default")
	key, isWrite := strings.CutPrefix(f.subject, "$KV."+bucket+".")
	switch {
	case isWrite && key == "state":
		if bytes.Contains(f.text(), []byte(`"intent":`)) {
			return "keep intent"
		}
		return "keep state"
	case isWrite && strings.HasPrefix(key, "drain.") && bytes.Contains(f.bytes, []byte("KV-Operation: DEL")):
		return "forget record"
	case isWrite && strings.HasPrefix(key, "drain."):
		name := "keep record"
		text := f.text()
		if m := stateOfRecord.FindSubmatch(text); m != nil {
			name += " " + string(m[1])
		}
		if endAccepted.Match(text) {
			name += " accepted"
		}
		return name
	case strings.HasPrefix(f.subject, "$JS.API.STREAM.INFO.KV_"+bucket) && bytes.Contains(f.bytes, []byte(".order.")):
		return "list orders"
	case strings.HasSuffix(f.subject, ".cordon"):
		return "cordon"
	case strings.Contains(f.subject, ".decision."):
		return "record the tick"
	}
	return ""
}

// frame is a message of the NATS protocol as it is on the wire.
type frame struct {
	bytes          []byte
	subject, reply string // of one that has a body
}

// text returns the message with its body unpacked: a value that is long enough is packed.
func (f frame) text() []byte {
	head, packed, found := bytes.Cut(f.bytes, []byte("\"gzip\":true}\n"))
	if !found {
		return f.bytes
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return f.bytes
	}
	r.Multistream(false) // the line that ends a message follows
	body, err := io.ReadAll(r)
	if err != nil {
		return f.bytes
	}
	return slices.Concat(head, body)
}

func readFrame(in *bufio.Reader) (frame, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return frame{}, err
	}
	f := frame{bytes: line}
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return f, nil
	}
	// VERB SUBJECT [SID] [REPLY] [HEADER] TOTAL
	before, sizes := 2, 1
	switch strings.ToUpper(words[0]) {
	case "PUB":
	case "HPUB":
		sizes = 2
	case "MSG":
		before = 3
	case "HMSG":
		before, sizes = 3, 2
	default:
		return f, nil
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil || len(words) < before+sizes {
		return frame{}, fmt.Errorf("cannot read %q", line)
	}
	f.subject = words[1]
	if len(words) > before+sizes {
		f.reply = words[before]
	}
	body := make([]byte, size+2)
	if _, err := io.ReadFull(in, body); err != nil {
		return frame{}, err
	}
	f.bytes = append(f.bytes, body...)
	return f, nil
}
