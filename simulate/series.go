package simulate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Series is work that a list of points describes: what each app needs at each time. The oldest nodes do it first. A cordoned node keeps
// what it does for Linger. What has no place is dropped.
type Series struct {
	Linear bool // between two points the need changes linearly; false: it keeps the earlier point
	Linger time.Duration

	apps    map[string][]point
	gaps    []Gap
	counted bool     // its file has the column instances
	names   []string // sorted
	kinds   []resource.Kind
	usable  resource.Vector // of the nodes of the last Step
	ends    time.Time       // of the next Linger; zero: none

	lingers func(*Node) time.Duration // in place of Linger; nil: all nodes have it
}

// point is what an app needs from a time on.
type point struct {
	at        time.Time
	need      resource.Vector
	instances int
}

// Gap is a time without a point in a file.
type Gap struct {
	File     string
	Line     int // of the point at its end
	App      string
	From, To time.Time
}

// gapFactor is how many times the median distance of two points of an app a gap is at least.
const gapFactor = 3

// NewSeries returns a series without points.
func NewSeries() *Series { return &Series{apps: map[string][]point{}} }

// Add adds the next point of an app, with what all its instances need.
func (s *Series) Add(app string, at time.Time, need resource.Vector) error {
	return s.add(app, point{at: at, need: need})
}

func (s *Series) add(app string, p point) error {
	if err := p.need.Validate(); err != nil {
		return err
	}
	all := s.apps[app]
	if n := len(all); n > 0 && !all[n-1].at.Before(p.at) {
		return fmt.Errorf("time %s of app %s does not follow %s: sort the rows, and remove repeated ones", p.at.Format(time.RFC3339), app, all[n-1].at.Format(time.RFC3339))
	}
	if all == nil {
		s.names = append(s.names, app)
		slices.Sort(s.names)
	}
	s.apps[app] = append(all, p)
	for k, x := range p.need {
		if kind := resource.Kind(k); x > 0 && !slices.Contains(s.kinds, kind) {
			s.kinds = append(s.kinds, kind)
			slices.Sort(s.kinds)
		}
	}
	return nil
}

// Fresh returns a series with the same points for another run.
func (s *Series) Fresh() *Series {
	return &Series{Linear: s.Linear, Linger: s.Linger, apps: s.apps, names: s.names, kinds: s.kinds}
}

// Adopt adds the numbers of instances of an app, from the rows of that app or from those without an app.
func (s *Series) Adopt(app string, from *Series) error {
	if !from.counted {
		return errors.New("its column instances is missing")
	}
	points := from.apps[app]
	if points == nil {
		if points = from.apps[allApps]; len(from.names) != 1 || points == nil {
			return fmt.Errorf("it has no row of app %s: it has rows of %s", app, strings.Join(from.names, ", "))
		}
	}
	for _, p := range points {
		if err := s.add(app, p); err != nil {
			return err
		}
	}
	for _, g := range from.gaps {
		if g.App == app || g.App == allApps {
			g.App = app
			s.gaps = append(s.gaps, g)
		}
	}
	return nil
}

// Gaps returns the gaps of its files.
func (s *Series) Gaps() []Gap { return s.gaps }

// Peak returns the most that all apps need at a point, by kind.
func (s *Series) Peak() (peak resource.Vector) {
	for _, app := range s.names {
		for _, p := range s.apps[app] {
			for k, x := range s.sum(p.at, false) {
				peak[k] = max(peak[k], x)
			}
		}
	}
	return peak
}

// findGaps finds the gaps of the apps in a file. lines has the lines of their points.
func (s *Series) findGaps(file string, lines map[string][]int) {
	for _, app := range s.names {
		all := s.apps[app]
		var steps []time.Duration
		for i := range len(all) - 1 {
			steps = append(steps, all[i+1].at.Sub(all[i].at))
		}
		if len(steps) < 3 {
			continue // they have no usual distance
		}
		usual := slices.Sorted(slices.Values(steps))[len(steps)/2]
		for i, step := range steps {
			if step >= gapFactor*usual {
				s.gaps = append(s.gaps, Gap{file, lines[app][i+1], app, all[i].at, all[i+1].at})
			}
		}
	}
}

// Counted reports whether its file has numbers of instances.
func (s *Series) Counted() bool { return s.counted }

// Span returns the first and the last time of a point.
func (s *Series) Span() (first, last time.Time) {
	for _, all := range s.apps {
		if at := all[0].at; first.IsZero() || at.Before(first) {
			first = at
		}
		if at := all[len(all)-1].at; at.After(last) {
			last = at
		}
	}
	return first, last
}

// Apps returns the names of the apps, sorted.
func (s *Series) Apps() []string { return s.names }

// Unnamed reports whether its rows name no app. Then a pool with the signal of one app has all of it from that signal.
func (s *Series) Unnamed() bool { return len(s.names) == 1 && s.names[0] == allApps }

// need returns what an app needs at a time, or just before it.
func (s *Series) need(app string, at time.Time, before bool) resource.Vector {
	all := s.apps[app]
	i := sort.Search(len(all), func(i int) bool { return all[i].at.After(at) }) - 1
	if i >= 1 && before && !s.Linear && all[i].at.Equal(at) {
		i--
	}
	if i < 0 {
		return all[0].need
	}
	from := all[i]
	if !s.Linear || i+1 == len(all) {
		return from.need
	}
	to := all[i+1]
	part := float64(at.Sub(from.at)) / float64(to.at.Sub(from.at))
	return from.need.Scale(1 - part).Add(to.need.Scale(part))
}

// sum returns what all apps need at a time, or just before it.
func (s *Series) sum(at time.Time, before bool) (sum resource.Vector) {
	for _, app := range s.names {
		sum = sum.Add(s.need(app, at, before))
	}
	return sum
}

// Requests implements Work.
func (s *Series) Requests(at time.Time, app string) (r resource.Request) {
	var need resource.Vector
	switch {
	case app == "":
		need = s.sum(at, false)
	case len(s.apps[app]) > 0:
		need = s.need(app, at, false)
	}
	for _, k := range s.kinds {
		r = r.With(k, need[k])
	}
	return r
}

// Step implements Work.
func (s *Series) Step(now time.Time, nodes []*Node) Load {
	s.usable, s.ends = resource.Vector{}, time.Time{}
	left := s.sum(now, false)
	for _, n := range nodes {
		usable := n.Machine
		if !n.Cordoned.IsZero() {
			usable = s.lingering(now, n)
		}
		s.usable = s.usable.Add(usable)
		n.Tasks = 0
		for k := range usable {
			n.Allocated[k] = min(usable[k], left[k])
			left[k] -= n.Allocated[k]
			if n.Allocated[k] > 0 {
				n.Tasks = 1
			}
		}
	}
	return s.load(now, false)
}

// lingering returns what a cordoned node still does.
func (s *Series) lingering(now time.Time, n *Node) resource.Vector {
	end := n.Cordoned.Add(s.Linger)
	if s.lingers != nil {
		end = n.Cordoned.Add(s.lingers(n))
	}
	if !now.Before(end) {
		return resource.Vector{}
	}
	if s.ends.IsZero() || end.Before(s.ends) {
		s.ends = end
	}
	return n.Allocated
}

func (s *Series) load(at time.Time, before bool) Load {
	l := Load{Wanted: s.sum(at, before)}
	for k := range l.Wanted {
		l.Lacks[k] = l.Wanted[k] - s.usable[k]
	}
	return l
}

// Until implements Work.
func (s *Series) Until(now time.Time) Load { return s.load(now, true) }

// Next implements Work.
func (s *Series) Next(now time.Time) time.Time {
	next := s.ends
	for _, app := range s.names {
		all := s.apps[app]
		i := sort.Search(len(all), func(i int) bool { return all[i].at.After(now) })
		if i < len(all) && (next.IsZero() || all[i].at.Before(next)) {
			next = all[i].at
		}
	}
	return next
}

// WriteCSV writes the points as ReadSeries reads them.
func (s *Series) WriteCSV(to io.Writer) error {
	head := []string{"time", "app"}
	for _, k := range s.kinds {
		head = append(head, k.String())
	}
	type row struct {
		app string
		point
	}
	var rows []row
	for _, app := range s.names {
		for _, p := range s.apps[app] {
			rows = append(rows, row{app, p})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.at.Compare(b.at) })
	out := csv.NewWriter(to)
	err := out.Write(head)
	for _, r := range rows {
		cells := []string{r.at.UTC().Format(time.RFC3339Nano), r.app}
		for _, k := range s.kinds {
			cells = append(cells, strconv.FormatFloat(r.need[k], 'f', -1, 64))
		}
		err = errors.Join(err, out.Write(cells))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// seriesColumns are the columns of a series. Only time is required.
var seriesColumns = []string{"time", "app", "cpus", "mem", "disk", "gpus", "instances"}

// timeFormats are the formats of a time. Those without a zone are in UTC.
var timeFormats = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04"}

// ReadSeries reads a series from CSV. Its first row names the columns: time, and some of app, cpus, mem, disk, gpus and instances. The
// values of an app are those of all its instances. Scale multiplies the values of a column; a column without a scale keeps them.
// The errors name the file and the line.
func ReadSeries(name string, data []byte, scale map[string]float64) (*Series, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.TrimLeadingSpace, r.ReuseRecord = true, true
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read series %s: the first row, of the columns %s: %w", name, strings.Join(seriesColumns, ","), err)
	}
	at := map[string]int{}
	for i, column := range head {
		if _, twice := at[column]; twice || !slices.Contains(seriesColumns, column) {
			return nil, fmt.Errorf("%s:1: column %q is unknown or given twice: want %s", name, column, strings.Join(seriesColumns, ","))
		}
		at[column] = i
	}
	for column, factor := range scale {
		if _, there := at[column]; !there || !(factor > 0 && factor <= 1e9) {
			return nil, fmt.Errorf("%s:1: scale %v of column %q: want a column of the file, and a factor above 0", name, factor, column)
		}
	}
	s := NewSeries()
	_, s.counted = at["instances"]
	lines := map[string][]int{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read series %s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		app, err := s.addRow(row, at, scale)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		lines[app] = append(lines[app], line)
	}
	if len(s.names) == 0 {
		return nil, fmt.Errorf("%s:1: it has no point: add rows below the columns", name)
	}
	s.findGaps(name, lines)
	return s, nil
}

// addRow adds the point of a row, and returns its app. at has the place of each column.
func (s *Series) addRow(row []string, at map[string]int, scale map[string]float64) (app string, err error) {
	cell := func(column string) string {
		if i, there := at[column]; there {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	var p point
	if p.at, err = ParseTime(cell("time")); err != nil {
		return "", err
	}
	if app = cell("app"); app == "" {
		app = allApps
	}
	app = strings.Clone(app)
	for _, k := range resource.Kinds() {
		if p.need[k], err = ParseNumber(k.String(), cell(k.String())); err != nil {
			return "", err
		}
		if factor, scaled := scale[k.String()]; scaled {
			p.need[k] *= factor
		}
	}
	instances, err := ParseNumber("instances", cell("instances"))
	if err != nil || instances != float64(int(instances)) {
		return "", fmt.Errorf("instances is %q: want a whole number", cell("instances"))
	}
	p.instances = int(instances)
	return app, s.add(app, p)
}

// ParseTime parses a time of a file.
func ParseTime(text string) (time.Time, error) {
	for _, format := range timeFormats {
		if at, err := time.Parse(format, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("time is %q: want a time as 2026-03-01T00:00:00Z", text)
}

// allApps is the app of rows without one.
const allApps = "all"

// maxNumber bounds a value of a series.
const maxNumber = 1e12

// ParseNumber returns the value of a cell; empty: 0.
func ParseNumber(column, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= maxNumber) {
		return 0, fmt.Errorf("%s is %q: want a number of at least 0", column, text)
	}
	return x, nil
}
