package plot

import (
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// Spark is the plot of a pool in the fleet. Its height is the maximum, so the fill is the use.
type Spark struct {
	Name                    string
	Columns, Height         int
	Joined, Target, Maximum []series.Bin
	Trouble                 []series.Bin // series.Severity
}

// Draw returns the plot.
func (k Spark) Draw() []byte {
	var d drawing
	d.add(`<svg class="plot spark" role="img" aria-label="$" viewBox="0 0 $ $" preserveAspectRatio="none" width="100%" height="$">`,
		k.Name, k.Columns, k.Height*10, k.Height)
	strip := 30
	top := max(highest(k.Joined), highest(k.Target))
	if m := highest(k.Maximum); m <= 3*top || top == 0 {
		top = max(top, m)
	}
	s := scale{top * 1.04, k.Height - strip/10 - 1}
	low, high, ok := make([]float32, k.Columns), make([]float32, k.Columns), make([]bool, k.Columns)
	for i, b := range k.Joined {
		high[i], ok[i] = b.Mean, b.OK
	}
	if shape := area(low, high, ok, s); shape != "" {
		d.add(`<path class="fill sj" d="$"/>`, shape)
	}
	if shape := line(k.Maximum, s); shape != "" {
		d.add(`<path class="grid" d="$"/>`, shape)
	}
	if shape := line(k.Target, s); shape != "" {
		d.add(`<path class="medium" d="$"/>`, shape)
	}
	for _, mark := range []struct {
		class string
		s     series.Severity
	}{{"warn", series.Stale}, {"bad", series.Failed}} {
		shape := blocks(k.Trouble, func(b series.Bin) bool { return series.Severity(b.Max) == mark.s }, k.Height*10-strip, k.Height*10)
		if shape != "" {
			d.add(`<path class="$" d="$"/>`, mark.class, shape)
		}
	}
	d.close()
	return d.Bytes()
}

// History is the plot of the pools in trouble, in bins of a quarter of an hour by wall clock.
type History struct {
	Name            string
	Height          int
	NotServed, Warn []int // pools, by bin
}

// Draw returns the plot.
func (h History) Draw() []byte {
	var d drawing
	most := 1
	for i := range h.Warn {
		most = max(most, h.Warn[i]+h.NotServed[i])
	}
	n := len(h.Warn)
	d.open("history", h.Name, h.Height)
	d.shapes(n*10, h.Height)
	unit := h.Height * 10 / most
	var bad, warn path
	for i := range n {
		a, b := h.NotServed[i]*unit, h.Warn[i]*unit
		if a > 0 {
			bad.WriteString(bar(i, h.Height*10, a))
		}
		if b > 0 {
			warn.WriteString(bar(i, h.Height*10-a, b))
		}
	}
	d.add(`<path class="fill bad" d="$"/><path class="fill warn" d="$"/><path class="axisline" d="M0 $h$"/>`,
		bad.String(), warn.String(), h.Height*10, n*10)
	d.close()
	d.weave("bad", 0, n*10, h.Height, bad.String())
	d.text("axis", 0, 10, "", counted(most))
	d.close()
	return d.Bytes()
}

// counted returns "1 pool" or "7 pools".
func counted(n int) string { return prose.Count(n, "pool") }

func bar(i, bottom, height int) string {
	var p path
	p.move(i*10+1, bottom)
	p.verb('v', -height)
	p.verb('h', 8)
	p.verb('v', height)
	p.WriteByte('z')
	return p.String()
}
