package config

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// Window is a time at which work on machines may begin.
type Window struct {
	Name     string   `yaml:"name"`
	Days     string   `yaml:"days"` // daily, weekdays such as mon-fri, or the first or last working day
	From     string   `yaml:"from"`
	To       string   `yaml:"to"`
	TimeZone string   `yaml:"time_zone"` // of the IANA database
	Allow    []string `yaml:"allow"`     // of roll, rotate, scale_in and repair
}

// Windows are the windows of a pool.
type Windows []Window

// Calendar returns the windows of a valid file.
func (ws Windows) Calendar() calendar.Windows {
	all, _ := ws.decode()
	return all
}

func (ws Windows) decode() (calendar.Windows, []calendar.Problem) {
	var list []calendar.WindowKeys
	for _, w := range ws {
		list = append(list, calendar.WindowKeys(w))
	}
	return calendar.DecodeWindows(list, api.Works(), time.LoadLocation)
}

func (ws Windows) problems(d document) (ps Problems) {
	_, problems := ws.decode()
	for _, one := range problems {
		ps = append(ps, d.problem(one.Path, one.What))
	}
	return ps
}
