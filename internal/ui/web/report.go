package web

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// Report is a page in one file. It needs no server, no script and no other file. All times are in UTC.
type Report struct {
	Title    string
	Sentence string // what the reader must know
	Above    []ReportTable
	// From and To are the time of all plots, in Columns.
	From, To time.Time
	Columns  int
	Plots    []ReportPlots
	Below    []ReportTable
	Notes    []string // what the page does not show
}

// ReportTable is a table of a report, or with a scatter a plot.
type ReportTable struct {
	Title, Note string
	Head        []string
	Rows        [][]ReportCell
	Scatter     *plot.Scatter
}

// ReportCell is a cell of a table.
type ReportCell struct {
	Text, Rest string
	Number     bool   // it is aligned right
	Class      string // of the style sheet; empty: none
}

// ReportPlots are plots of one quantity below each other, with one scale.
type ReportPlots struct {
	Title string
	Lanes []ReportLane
}

// ReportLane is one plot.
type ReportLane struct {
	Name, Sub string
	Chart     plot.Chart
}

// HTML returns the page.
func (r Report) HTML(ctx context.Context) ([]byte, error) {
	style, err := files.ReadFile("assets/style.css")
	if err != nil {
		return nil, err
	}
	w := series.Window{From: r.From, To: r.To, Columns: r.Columns}
	axis := marks(w, false)
	v := reportView{
		Report: r, Style: string(style), Ruler: plot.Ruler(axis), Overlay: plot.Overlay{Columns: r.Columns, Marks: axis[:len(axis)-1]}.Draw(),
	}
	for _, p := range r.Plots {
		v.Sections = append(v.Sections, p.section())
	}
	return render(ctx, reportPage(v))
}

// section draws the plots with one scale.
func (p ReportPlots) section() section {
	peak := 0.0
	for _, l := range p.Lanes {
		peak = max(peak, l.Chart.Highest())
	}
	out := section{ID: "main", Title: p.Title}
	for _, l := range p.Lanes {
		l.Chart.Peak = peak
		legend := append(append([]plot.Layer{}, l.Chart.Stack...), l.Chart.Lines...)
		out.Lanes = append(out.Lanes, lane{Name: l.Name, Sub: l.Sub, Plot: l.Chart.Draw(), Labels: l.Chart.Labels(), Legend: legend})
	}
	return out
}

// reportView is a report with its drawn plots.
type reportView struct {
	Report
	Style          string
	Ruler, Overlay []byte
	Sections       []section
}
