package calendar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cron reads the begins of a cron expression of five fields.
func (f fields) cron() (r rule, begins []int) {
	text, ok := f.text("cron", `five fields, such as "0 2 * * 1-5"`)
	if !ok {
		return r, nil
	}
	parts := strings.Fields(text)
	if len(parts) != 5 {
		f.bad("cron", `is %.40q: want five fields, such as "0 2 * * 1-5": minute, hour, day of the month, month, day of the week`, text)
		return r, nil
	}
	var numbers [5][]int
	for i, field := range []struct {
		name      string
		low, high int
	}{{"minute", 0, 59}, {"hour", 0, 23}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 7}} {
		if parts[i] == "*" && i > 1 {
			continue
		}
		var wrong string
		if numbers[i], wrong = cronNumbers(parts[i], field.low, field.high); wrong != "" {
			f.bad("cron", "the %s is %.40q: %s", field.name, parts[i], wrong)
			return r, nil
		}
	}
	if numbers[2] != nil && numbers[4] != nil {
		f.bad("cron", "has a day of the month and a day of the week, and programs disagree if one or both must fit: want * for one; for both, write rrule")
		return r, nil
	}
	for _, hour := range numbers[1] {
		for _, minute := range numbers[0] {
			begins = append(begins, hour*60+minute)
		}
	}
	slices.Sort(begins)
	if begins = slices.Compact(begins); len(begins) > mostBegins {
		f.bad("cron", "begins %d times a day: want at most %d; a longer period needs fewer begins", len(begins), mostBegins)
	}
	r.monthDays = numbers[2]
	for _, n := range numbers[3] {
		r.months = append(r.months, time.Month(n))
	}
	for _, n := range numbers[4] {
		r.weekdays = append(r.weekdays, nthDay{day: time.Weekday(n % 7)})
	}
	if !r.ever() {
		f.bad("cron", "is %.40q: no year has such a date: want another day or month", text)
	}
	return r, begins
}

// cronNumbers reads a list of numbers and ranges; wrong is the problem, empty if valid.
func cronNumbers(text string, low, high int) (all []int, wrong string) {
	if strings.ContainsAny(text, "*/") {
		return nil, fmt.Sprintf("want numbers such as %d or %d-%d: * and / have two meanings where a clock is set back or a month begins", low, low, high)
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		begin, err := strconv.ParseUint(from, 10, 8)
		end, errToo := strconv.ParseUint(to, 10, 8)
		if err != nil || errToo != nil || int(begin) < low || int(end) > high || end < begin {
			return nil, fmt.Sprintf("want numbers from %d to %d, such as %d or %d-%d", low, high, low, low, high)
		}
		for n := begin; n <= end; n++ {
			all = append(all, int(n))
		}
	}
	return all, ""
}

// rrule reads days by a rule of RFC 5545: FREQ, BYMONTH, BYMONTHDAY and BYDAY. It refuses parts that need a first date.
func (f fields) rrule() (r rule) {
	text, ok := f.text("rrule", `a rule such as "FREQ=MONTHLY;BYDAY=1TU"`)
	if !ok {
		return r
	}
	values, wrong := rruleParts(text)
	if wrong == "" {
		r, wrong = rruleOf(values)
	}
	if wrong == "" && !r.ever() {
		wrong = "no year has such a date: want another day or month"
	}
	if wrong != "" {
		f.bad("rrule", "is %.60q: %s", text, wrong)
	}
	return r
}

func rruleParts(text string) (values map[string]string, wrong string) {
	values = map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(part, "=")
		switch _, twice := values[key]; {
		case twice:
			return nil, fmt.Sprintf("%.20s is repeated: want it once", key)
		case !slices.Contains([]string{"FREQ", "BYMONTH", "BYMONTHDAY", "BYDAY"}, key):
			return nil, fmt.Sprintf("%.20s is not supported: want FREQ, BYMONTH, BYMONTHDAY and BYDAY; for single dates, write on", key)
		case value == "":
			return nil, fmt.Sprintf("%.20s has no value: want one, such as FREQ=DAILY", key)
		}
		values[key] = value
	}
	return values, ""
}

// rruleOf returns the days of a rule; wrong is the problem, empty if valid.
func rruleOf(values map[string]string) (r rule, wrong string) {
	freq := values["FREQ"]
	nth := freq == "MONTHLY" || freq == "YEARLY"
	switch {
	case !nth && freq != "DAILY" && freq != "WEEKLY":
		return r, "want FREQ=DAILY, WEEKLY, MONTHLY or YEARLY"
	case freq == "WEEKLY" && values["BYDAY"] == "":
		return r, "want BYDAY too, such as BYDAY=MO: a rule without a first date does not name the day"
	case freq == "WEEKLY" && values["BYMONTHDAY"] != "":
		return r, "want FREQ=MONTHLY with BYMONTHDAY"
	case freq == "MONTHLY" && values["BYDAY"] == "" && values["BYMONTHDAY"] == "":
		return r, "want BYDAY or BYMONTHDAY too, such as BYDAY=1TU: a rule without a first date does not name the day"
	case freq == "YEARLY" && (values["BYMONTH"] == "" || values["BYDAY"] == "" && values["BYMONTHDAY"] == ""):
		return r, "want BYMONTH, and BYDAY or BYMONTHDAY too, such as BYMONTH=5;BYMONTHDAY=1"
	}
	months, wrong := rruleNumbers(values["BYMONTH"], 1, 12)
	for _, n := range months {
		r.months = append(r.months, time.Month(n))
	}
	if wrong == "" {
		r.monthDays, wrong = rruleNumbers(values["BYMONTHDAY"], -31, 31)
	}
	if wrong == "" {
		r.weekdays, wrong = rruleWeekdays(values["BYDAY"], nth)
	}
	return r, wrong
}

func rruleNumbers(text string, low, high int) (all []int, wrong string) {
	if text == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < low || n > high || n == 0 {
			return nil, fmt.Sprintf("%.20q: want a number from %d to %d, not 0", part, low, high)
		}
		all = append(all, n)
	}
	return all, ""
}

// rruleWeekdays reads weekdays such as MO or, if nth is set, 1TU and -1FR.
func rruleWeekdays(text string, nth bool) (all []nthDay, wrong string) {
	if text == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(text, ",") {
		name := part[max(0, len(part)-2):]
		weekday := slices.Index([]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}, name)
		w := nthDay{day: time.Weekday(weekday)}
		var err error
		if number := strings.TrimSuffix(part, name); number != "" {
			if w.n, err = strconv.Atoi(number); w.n == 0 || w.n < -5 || w.n > 5 || !nth {
				return nil, fmt.Sprintf("%.20q: want a weekday such as MO; with FREQ=MONTHLY also 1TU, or -1FR for the last Friday", part)
			}
		}
		if weekday < 0 || err != nil {
			return nil, fmt.Sprintf("%.20q: want a weekday: MO, TU, WE, TH, FR, SA or SU", part)
		}
		all = append(all, w)
	}
	return all, ""
}
