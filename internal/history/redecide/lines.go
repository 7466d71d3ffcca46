package redecide

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/history"
)

// Lines answers each line of in with one line of out, and returns how many lines it could decide. It ends early, without an
// error, when ctx ends.
func Lines(ctx context.Context, in io.Reader, out io.Writer) (decided int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, history.MaxRecord)
	w := bufio.NewWriter(out)
	var reader lineReader
	for lines.Scan() {
		if ctx.Err() != nil {
			break
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		answer, err := reader.answerLine(line)
		if err != nil {
			answer = encodeError(err)
		} else {
			decided++
		}
		if _, err := w.Write(append(answer, '\n')); err != nil {
			return decided, err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return decided, errors.Join(w.Flush(), fmt.Errorf("a line has more than %d MiB", history.MaxRecord>>20))
	} else if err != nil {
		return decided, errors.Join(w.Flush(), err)
	}
	return decided, w.Flush()
}

// answerLine decides one line and returns the line of the answer.
func (r *lineReader) answerLine(line []byte) ([]byte, error) {
	c, err := r.readCase(line)
	if err != nil {
		return nil, err
	}
	outcome := resolve.Resolve(c)
	if err := checkDecision(c, outcome); err != nil {
		return nil, err
	}
	if len(c.Groups) == 0 {
		outcome.State.DecisionState = stateAfter(c, outcome.Decision)
	}
	return json.Marshal(outcome.Result())
}

// stateAfter returns the state after a decision for a pool whose line has no groups: the
// decision is taken as carried out.
func stateAfter(c api.Case, d decide.Decision) api.DecisionState {
	change := d.Target - (c.Input.Capacity.Target + c.State.Offset)
	if change == 0 {
		return d.State
	}
	p := c.Input.Policy
	longest := max(p.Period, p.Cooldown.Up, p.Cooldown.Down)
	for _, b := range p.Budgets {
		longest = max(longest, b.Within)
	}
	return decide.AfterChange(d.State, api.TargetChange{Up: max(0, change), Down: max(0, -change)}, longest)
}

// checkDecision returns why a case has no decision that is worth printing.
func checkDecision(c api.Case, o resolve.Outcome) error {
	if err := decide.ValidatePolicy(c.Input.Policy); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if len(c.Groups) > 0 && o.Distribution.Shares == nil && o.Refused != "" {
		return errors.New(o.Refused)
	}
	return nil
}

func encodeError(err error) []byte {
	data, err := json.Marshal(map[string]string{"error": err.Error()})
	if err != nil {
		return []byte(`{"error":"?"}`) // a map of strings encodes
	}
	return data
}
