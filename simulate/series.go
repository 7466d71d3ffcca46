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

	apps   map[string][]point
	names  []string // sorted
	kinds  []resource.Kind
	usable resource.Vector // of the nodes of the last Step
	ends   time.Time       // of the next Linger; zero: none

	lingers func(*Node) time.Duration // in place of Linger; nil: all nodes have it
}

// point is what an app needs from a time on.
type point struct {
	at        time.Time
	need      resource.Vector
	instances int
}

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

// Adopt adds the points of a series with one app under another name.
func (s *Series) Adopt(app string, from *Series) error {
	if len(from.names) != 1 {
		return fmt.Errorf("it has the apps %v: want one", from.names)
	}
	for _, p := range from.apps[from.names[0]] {
		if err := s.add(app, p); err != nil {
			return err
		}
	}
	return nil
}

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

// columns of a series, of which time is required.
var columns = []string{"time", "app", "cpus", "mem", "disk", "gpus", "instances"}

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
		return nil, fmt.Errorf("read series %s: the first row, of the columns %s: %w", name, strings.Join(columns, ","), err)
	}
	at := map[string]int{}
	for i, column := range head {
		if _, twice := at[column]; twice || !slices.Contains(columns, column) {
			return nil, fmt.Errorf("%s:1: column %q is unknown or given twice: want %s", name, column, strings.Join(columns, ","))
		}
		at[column] = i
	}
	for column, factor := range scale {
		if _, there := at[column]; !there || !(factor > 0 && factor <= 1e9) {
			return nil, fmt.Errorf("%s:1: scale %v of column %q: want a column of the file, and a factor above 0", name, factor, column)
		}
	}
	s := NewSeries()
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read series %s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		if err := s.addRow(row, at, scale); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if len(s.names) == 0 {
		return nil, fmt.Errorf("read series %s: it has no point", name)
	}
	return s, nil
}

// addRow adds the point of a row. at has the place of each column.
func (s *Series) addRow(row []string, at map[string]int, scale map[string]float64) error {
	cell := func(column string) string {
		if i, there := at[column]; there {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	var p point
	var err error
	if p.at, err = parseTime(cell("time")); err != nil {
		return err
	}
	app := cell("app")
	if app == "" {
		app = "all"
	}
	for _, k := range resource.Kinds() {
		if p.need[k], err = number(k.String(), cell(k.String())); err != nil {
			return err
		}
		if factor, scaled := scale[k.String()]; scaled {
			p.need[k] *= factor
		}
	}
	instances, err := number("instances", cell("instances"))
	if err != nil || instances != float64(int(instances)) {
		return fmt.Errorf("instances is %q: want a whole number", cell("instances"))
	}
	p.instances = int(instances)
	return s.add(strings.Clone(app), p)
}

func parseTime(text string) (time.Time, error) {
	for _, format := range timeFormats {
		if at, err := time.Parse(format, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("time is %q: want a time as 2026-03-01T00:00:00Z", text)
}

// maxNumber bounds a value of a series.
const maxNumber = 1e12

// number returns the value of a cell; empty: 0.
func number(column, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= maxNumber) {
		return 0, fmt.Errorf("%s is %q: want a number of at least 0", column, text)
	}
	return x, nil
}
