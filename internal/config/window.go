package config

import (
	"time"

	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// Window is a time at which work on machines may begin.
type Window struct {
	Name     string   `yaml:"name"`
	Days     string   `yaml:"days"` // daily, weekdays such as mon-fri, or the first or last working day
	From     string   `yaml:"from"`
	To       string   `yaml:"to"`
	TimeZone string   `yaml:"time_zone"` // of the IANA database
	Allow    []string `yaml:"allow"`     // of roll, scale_in and repair
}

// MaintenanceWindows returns the windows of a valid file.
func (p Pool) MaintenanceWindows() calendar.Windows {
	all, _ := p.decodeWindows()
	return all
}

func (p Pool) decodeWindows() (calendar.Windows, []calendar.Problem) {
	var list []calendar.WindowKeys
	for _, w := range p.Windows {
		list = append(list, calendar.WindowKeys(w))
	}
	return calendar.DecodeWindows(list, time.LoadLocation)
}

func (p Pool) windowProblems() (ps Problems) {
	_, problems := p.decodeWindows()
	for _, one := range problems {
		ps = append(ps, p.document.problem(one.Path, one.What))
	}
	return ps
}
