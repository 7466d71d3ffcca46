package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWrap(t *testing.T) {
	for line, want := range map[string][]string{
		"": {""}, "abc": {"abc"}, "abcd": {"abc", "d"}, "abcdef": {"abc", "def"}, "größe": {"grö", "ße"},
	} {
		if got := wrap(line, 3); !slices.Equal(got, want) {
			t.Errorf("wrap(%q, 3) = %q, want %q", line, got, want)
		}
	}
}

// A long pause is cut for both terminals.
func TestPace(t *testing.T) {
	up := []row{{0, "a"}, {10 * time.Second, "c"}}
	typed := []row{{time.Second, "b"}, {11 * time.Second, "d"}}
	if got, want := pace(up, typed, 2*time.Second), []row{{0, "a"}, {3 * time.Second, "c"}}; !slices.Equal(got, want) {
		t.Errorf("first terminal %v, want %v", got, want)
	}
	if got, want := pace(typed, up, 2*time.Second), []row{{time.Second, "b"}, {4 * time.Second, "d"}}; !slices.Equal(got, want) {
		t.Errorf("second terminal %v, want %v", got, want)
	}
}

// texts returns the texts of an SVG, or an error if it is no XML.
func texts(svg io.Reader) (found []string, err error) {
	d := xml.NewDecoder(svg)
	inText := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		switch x := token.(type) {
		case xml.StartElement:
			inText = x.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				found = append(found, string(x))
			}
		}
	}
}

func TestPicture(t *testing.T) {
	svg := picture([]terminal{
		{"one", []row{{0, "$ a <b>"}, {1500 * time.Millisecond, "  c & d"}}},
		{"two", []row{{2 * time.Second, "! long line"}}},
	}, 8)
	got, err := texts(strings.NewReader(svg))
	if want := []string{"one", "$ a <b>", "  c & d", "two", "! long l", "ine"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("texts %q (%v), want %q", got, err, want)
	}
	for _, want := range []string{`class="row command"`, `class="row problem"`, "animation-delay:1.5s", "prefers-reduced-motion"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s:\n%s", want, svg)
		}
	}
}

// The picture in the repository is of the present steps.
func TestRecordedPicture(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "terminal.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := texts(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if !slices.Contains(lines, "$ "+step.command) {
			t.Errorf("docs/terminal.svg has no command %q: run \"make record\"", step.command)
		}
	}
	said := func(text string) bool {
		return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) })
	}
	if !said("Apps need 5 machines: grows from 2 to 5.") || said("wanted") {
		t.Error("docs/terminal.svg has words of an older version: run \"make record\"")
	}
}
