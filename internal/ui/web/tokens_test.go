package web

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// colour is a colour in linear light, 0 to 1.
type colour [3]float64

var token = regexp.MustCompile(`--(\w+): #([0-9a-f]{6})`)

// tokens returns the colours of the style sheet, light and dark.
func tokens(t *testing.T) map[string]map[string]colour {
	t.Helper()
	data, err := files.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, rest, _ := strings.Cut(string(data), "@media (prefers-color-scheme: dark)")
	dark, _, _ := strings.Cut(rest, "/* Text */")
	out := map[string]map[string]colour{}
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		out[scheme] = map[string]colour{}
		for _, m := range token.FindAllStringSubmatch(text, -1) {
			out[scheme][m[1]] = parse(m[2])
		}
	}
	if n := len(out["light"]); n != 23 || len(out["dark"]) != n {
		t.Fatalf("%d and %d tokens, want 23", n, len(out["dark"]))
	}
	return out
}

func parse(hex string) (c colour) {
	for i := range 3 {
		x, _ := strconv.ParseUint(hex[i*2:i*2+2], 16, 8) // the expression matched digits
		s := float64(x) / 255
		if c[i] = s / 12.92; s > 0.04045 {
			c[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c colour) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// contrast is the contrast of WCAG 2.
func contrast(a, b colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Text has a contrast of at least 4.5, marks of at least 3 (WCAG 2). The other fills stand only below a line of ink.
func TestContrast(t *testing.T) {
	for scheme, colours := range tokens(t) {
		for _, ground := range []string{"page", "raise"} {
			for _, text := range []string{"ink", "ink2", "acc", "warn", "bad"} {
				if x := contrast(colours[text], colours[ground]); x < 4.5 {
					t.Errorf("%s: text %s on %s has contrast %.2f, want 4.5", scheme, text, ground, x)
				}
			}
		}
		for _, mark := range []string{"ink3", "warnf", "badf", "quiet", "node", "g0", "a0", "a2"} {
			if x := contrast(colours[mark], colours["page"]); x < 3 {
				t.Errorf("%s: mark %s has contrast %.2f, want 3", scheme, mark, x)
			}
		}
	}
}

// sight is how an eye receives linear light: identity, and the matrices of Machado et al. 2009 for a full deficiency.
var sight = map[string][3][3]float64{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func (c colour) seen(m [3][3]float64) (out colour) {
	for i := range 3 {
		out[i] = min(max(m[i][0]*c[0]+m[i][1]*c[1]+m[i][2]*c[2], 0), 1)
	}
	return out
}

// lab returns the colour in CIELAB, for the white of D65.
func (c colour) lab() [3]float64 {
	f := func(x float64) float64 {
		if x > 0.008856 {
			return math.Cbrt(x)
		}
		return 7.787*x + 16.0/116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.95047)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func difference(a, b colour) float64 {
	x, y := a.lab(), b.lab()
	return math.Sqrt((x[0]-y[0])*(x[0]-y[0]) + (x[1]-y[1])*(x[1]-y[1]) + (x[2]-y[2])*(x[2]-y[2]))
}

// Colours that stand for different things differ for every kind of eye.
func TestColourVision(t *testing.T) {
	pairs := [][2]string{{"warnf", "badf"}, {"g0", "g1"}, {"g1", "g2"}, {"g0", "g2"}}
	for i := range 4 {
		for j := range i {
			pairs = append(pairs, [2]string{fmt.Sprintf("a%d", j), fmt.Sprintf("a%d", i)})
		}
	}
	for scheme, colours := range tokens(t) {
		for eye, m := range sight {
			for _, p := range pairs {
				if x := difference(colours[p[0]].seen(m), colours[p[1]].seen(m)); x < 15 {
					t.Errorf("%s, %s: %s and %s differ by %.1f, want 15", scheme, eye, p[0], p[1], x)
				}
			}
		}
	}
}
