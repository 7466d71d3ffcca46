package command

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// inMB reports whether the flag in the text of a mistake takes a number of MB.
func inMB(cmd *cobra.Command, text string) bool {
	_, name, _ := strings.Cut(text, ` for "`)
	_, name, _ = strings.Cut(name, "--")
	name, _, _ = strings.Cut(name, `"`)
	flag := cmd.Flags().Lookup(name)
	return flag != nil && strings.HasPrefix(flag.Usage, "MB ")
}

// wantedNumber returns what a flag of a number takes. problem is the text of package
// strconv, without its own name.
func wantedNumber(problem string, mb bool) string {
	want := "want a number"
	if strings.HasPrefix(problem, "ParseInt") || strings.HasPrefix(problem, "ParseUint") || strings.HasPrefix(problem, "Atoi") {
		want = "want a whole number"
	}
	if strings.HasSuffix(problem, "value out of range") {
		return want + " that is nearer to 0"
	}
	_, given, _ := strings.Cut(problem, ": parsing ")
	given, err := strconv.QuotedPrefix(given)
	if err != nil {
		return want
	}
	given, _ = strconv.Unquote(given)
	unit := strings.TrimLeft(given, "0123456789.")
	if near := nearSize(strings.TrimSuffix(given, unit), strings.TrimSpace(unit), mb); near != "" {
		want += fmt.Sprintf(" without a unit; did you mean %s?", near)
	}
	return want
}

// nearSize returns a number without its unit: of a size, in MB.
func nearSize(number, unit string, mb bool) string {
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || unit == "" {
		return ""
	}
	if !mb {
		return number
	}
	per, known := map[string]float64{"K": 1.0 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}[strings.ToUpper(unit[:1])]
	switch strings.ToUpper(unit[1:]) {
	case "", "B", "I", "IB":
	default:
		known = false
	}
	if !known {
		return ""
	}
	return nearNumber(value * per)
}

// nearNumber formats a number: exact if it is whole and has at most 15 digits, otherwise with six digits.
func nearNumber(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// inDays matches a duration that begins with weeks or days, such as 7d or 1d12h.
func inDays() *regexp.Regexp {
	return regexp.MustCompile(`^(?:([0-9]{1,4})w)?(?:([0-9]{1,5})d)?([0-9].*)?$`)
}

// parseDuration is time.ParseDuration that also accepts whole weeks and days of 24 h before the other units.
func parseDuration(text string) (time.Duration, error) {
	m := inDays().FindStringSubmatch(text)
	if m == nil || m[1] == "" && m[2] == "" {
		return time.ParseDuration(text)
	}
	weeks, _ := strconv.Atoi(m[1])
	days, _ := strconv.Atoi(m[2])
	sum := time.Duration(7*weeks+days) * 24 * time.Hour
	if m[3] == "" {
		return sum, nil
	}
	rest, err := time.ParseDuration(m[3])
	if sum > math.MaxInt64-rest {
		return 0, fmt.Errorf("time: invalid duration %q", text)
	}
	return sum + rest, err
}

// DurationVar adds a flag of a duration, which may have days: 7d.
func DurationVar(flags *pflag.FlagSet, p *time.Duration, name string, initial time.Duration, help string) {
	*p = initial
	flags.Var((*duration)(p), name, help)
}

type duration time.Duration

func (d *duration) Type() string { return "duration" }

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(text string) error {
	parsed, err := parseDuration(text)
	if err == nil {
		*d = duration(parsed)
	}
	return err
}

// wordy is a duration as people write it: numbers with units in letters.
func wordy() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*) ?`) }

// durationNear returns the duration that a wrong text probably means; empty if none is near. A number without a unit
// counts as seconds, or after hours as minutes.
func durationNear(given string) string {
	units := map[string]time.Duration{
		"": time.Second, "s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
		"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	}
	const most = 10 * 365 * 24 * time.Hour
	var sum, unit time.Duration
	for rest := strings.TrimSpace(given); rest != ""; {
		m := wordy().FindStringSubmatch(rest)
		if m == nil {
			return ""
		}
		next, known := units[strings.ToLower(m[2])]
		if m[2] == "" && unit == time.Hour {
			next = time.Minute
		}
		value, err := strconv.ParseFloat(m[1], 64)
		if !known || err != nil || value > float64(most/next) {
			return ""
		}
		sum, unit, rest = sum+time.Duration(value*float64(next)), next, rest[len(m[0]):]
	}
	if sum <= 0 || sum > most {
		return ""
	}
	return seconds.Short(sum)
}

// nearDuration returns the near duration for the text of a mistake of package time.
func nearDuration(text string) string {
	_, given, _ := strings.Cut(text, "duration ")
	given, err := strconv.QuotedPrefix(strings.TrimSpace(given))
	if err != nil {
		return ""
	}
	given, _ = strconv.Unquote(given)
	return durationNear(given)
}
