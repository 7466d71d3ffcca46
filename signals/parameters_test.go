package signals

import (
	"strings"
	"testing"
	"time"
)

func TestParameters(t *testing.T) {
	p := Parameters{"float": 1.5, "int": 3.0, "text": "t", "yes": true, "wait": "90s", "null": nil, "list": []any{1.0}}
	if got, err := p.Float("float", 9); got != 1.5 || err != nil {
		t.Errorf("Float = %v, %v", got, err)
	}
	if got, err := p.Int("int", 9); got != 3 || err != nil {
		t.Errorf("Int = %v, %v", got, err)
	}
	if got, err := p.String("text", "f"); got != "t" || err != nil {
		t.Errorf("String = %v, %v", got, err)
	}
	if got, err := p.Bool("yes", false); !got || err != nil {
		t.Errorf("Bool = %v, %v", got, err)
	}
	if got, err := p.Duration("wait", 0); got != 90*time.Second || err != nil {
		t.Errorf("Duration = %v, %v", got, err)
	}
	for _, absent := range []string{"absent", "null"} {
		if got, err := p.Duration(absent, time.Hour); got != time.Hour || err != nil {
			t.Errorf("Duration(%q) = %v, %v; want the fallback", absent, got, err)
		}
		if got, err := p.Int(absent, 7); got != 7 || err != nil {
			t.Errorf("Int(%q) = %v, %v; want the fallback", absent, got, err)
		}
	}
	for name, ask := range map[string]func() error{
		"text":  func() error { _, err := p.Float("text", 0); return err },
		"float": func() error { _, err := p.Int("float", 0); return err },
		"int":   func() error { _, err := p.String("int", ""); return err },
		"list":  func() error { _, err := p.Bool("list", false); return err },
		"yes":   func() error { _, err := p.Duration("yes", 0); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("parameter %q: error %v, want one that names it", name, err)
		}
	}
	if _, err := (Parameters{"d": "soon"}).Duration("d", 0); err == nil || !strings.Contains(err.Error(), `"soon"`) {
		t.Errorf("Duration = %v, want an error that shows the value", err)
	}
}
