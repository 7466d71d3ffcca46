package webtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// Tab is a tab of a browser. It collects each error of the page, such as a violation of its policy.
type Tab struct {
	t      testing.TB
	ctx    context.Context
	mu     sync.Mutex
	errors []string
}

// Browse opens a browser of that size in pixels, with the light or the dark scheme. It ends with the test. A page with an
// error fails the test.
func Browse(t testing.TB, width, height int64, dark bool) *Tab {
	t.Helper()
	program, env, err := testprograms.Chromium(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.Env(env...), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(await.Patience))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel) // chromedp kills the browser and removes its folder
	b := &Tab{t: t, ctx: ctx}
	if err := chromedp.Run(ctx); err != nil { // the first call starts the browser, which ends with its context
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, b.listen)
	b.Run(chromedp.EmulateViewport(width, height), cdplog.Enable())
	b.Scheme(dark)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.errors {
			t.Errorf("the page has an error: %s", e)
		}
	})
	return b
}

// Scheme sets the light or the dark scheme.
func (b *Tab) Scheme(dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.Run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}))
}

// listen collects errors.
func (b *Tab) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Error()
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors = append(b.errors, text)
	}
}

// Forgive forgets the errors with a text, of a server that a test stops.
func (b *Tab) Forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.errors[:0]
	for _, e := range b.errors {
		if !strings.Contains(e, part) {
			kept = append(kept, e)
		}
	}
	b.errors = kept
}

// Run runs actions one after the other, for at most await.Patience. An error fails the test.
func (b *Tab) Run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, await.Patience)
	defer cancel()
	for _, action := range actions {
		err := chromedp.Run(ctx, action)
		for err != nil && redrawn(err) {
			err = chromedp.Run(ctx, action)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// redrawn reports whether an action found an element, and the page replaced the element before the action began.
func redrawn(err error) bool {
	e, ok := errors.AsType[*cdproto.Error](err)
	return ok && slices.Contains([]string{"No node with given id found", "Could not find node with given id", "Node is detached from document"}, e.Message)
}

// Await waits until an expression is true.
func (b *Tab) Await(expression string) {
	b.t.Helper()
	b.Run(chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(await.Patience)))
}

// Text returns the text of the first element, when it is visible. One expression finds and reads it, because the page may
// replace an element in between.
func (b *Tab) Text(selector string) string {
	b.t.Helper()
	b.Run(chromedp.WaitVisible(selector, chromedp.ByQuery))
	return Eval[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// Eval returns the value of an expression.
func Eval[T any](b *Tab, expression string) (out T) {
	b.t.Helper()
	b.Run(chromedp.Evaluate(expression, &out))
	return out
}

// Widths are those of a screen, a small window, a window of twice the size of text, and a phone, in pixels.
func Widths() []int64 { return []int64{1440, 1000, 720, 400} }

// highest is the height of a picture in pixels, beyond which a page repeats its rows.
const highest = 2400

// Shots shows the page in all widths, light and dark, and writes pictures of it into the folder that WEIR_SCREENSHOTS
// names. Without a folder, Chromium paints no picture.
func (b *Tab) Shots(name string) {
	b.t.Helper()
	dir := os.Getenv("WEIR_SCREENSHOTS")
	for _, width := range Widths() {
		b.Run(chromedp.EmulateViewport(width, 1000))
		// A window as high as the page is drawn anew. A capture beyond the window can wait for a frame that never comes.
		height := Eval[int64](b, `Math.ceil(document.body.getBoundingClientRect().height)`)
		b.Run(chromedp.EmulateViewport(width, min(max(height, 600), highest)))
		for scheme, dark := range map[string]bool{"light": false, "dark": true} {
			b.Scheme(dark)
			if dir == "" {
				continue
			}
			var picture []byte
			b.Run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
				picture, err = page.CaptureScreenshot().WithOptimizeForSpeed(true).Do(ctx)
				return err
			}))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	if dir != "" {
		b.t.Logf("%s: %s-*.png", dir, name)
	}
}
