package influx

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxRecord bounds one line of an answer, in bytes: the names of a series and its
// value, which may be a text in a field that is no metric.
const maxRecord = 1 << 20

// answer reads what a query is answered with: annotated CSV, one table after the
// other, and the one that every query ends with.
type answer struct {
	csv     *csv.Reader
	guard   *guard
	columns []columnMeta
	heading bool   // annotations were read; the names of the columns are next
	failed  bool   // the table is an error
	table   string // which one the last row was of; "": another one, in any case
	ended   bool
}

// columnMeta is what the annotations and the header say of a column.
type columnMeta struct {
	name, kind string
	standard   string // what an empty cell stands for
}

// The first columns of every table.
const (
	resultColumn = iota
	tableColumn
	ownColumns // those of the table itself begin here
)

func newAnswer(r io.Reader) *answer {
	g := &guard{Reader: r, left: maxRecord}
	a := &answer{csv: csv.NewReader(g), guard: g}
	a.csv.FieldsPerRecord, a.csv.ReuseRecord = -1, true
	return a
}

// next returns the next row, whose cells are those of a.columns and valid until the
// next one, and whether it is the first one of its table. The error is io.EOF
// after the last row of an answer that is whole, an ErrBadAnswer, a *ServerError, or
// that of the reader.
func (a *answer) next() (row []string, first bool, err error) {
	for {
		a.guard.left = maxRecord
		record, err := a.csv.Read()
		if err != nil {
			return nil, false, a.end(err)
		}
		label, row := record[0], record[1:]
		switch {
		case label != "":
			err = a.annotate(label, row)
		case a.heading:
			err = a.head(row)
		case len(row) == 0 || len(row) != len(a.columns):
			err = fmt.Errorf("%w: a row of %d columns in a table of %d", ErrBadAnswer, len(row), len(a.columns))
		case a.failed:
			err = &ServerError{Status: http.StatusOK, Message: row[0]}
		case a.isEnd(row):
			a.ended = true
		default:
			table := row[tableColumn]
			first = table != a.table
			a.table = table
			return row, first, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// end returns what the end of the input means.
func (a *answer) end(err error) error {
	if _, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	if err == io.EOF && (!a.ended || a.heading || a.failed) {
		return fmt.Errorf("%w: it ends early", ErrBadAnswer)
	}
	return err
}

// annotate reads a line that says something of the columns of the next table.
func (a *answer) annotate(label string, row []string) error {
	if !a.heading {
		a.columns, a.heading, a.failed, a.table = make([]columnMeta, len(row)), true, false, ""
	}
	if len(row) != len(a.columns) {
		return fmt.Errorf("%w: annotations of %d and of %d columns", ErrBadAnswer, len(a.columns), len(row))
	}
	for i, text := range row {
		switch label {
		case "#datatype":
			a.columns[i].kind = text
		case "#default":
			a.columns[i].standard = text
		case "#group": // says nothing that matters here
		default:
			return fmt.Errorf("%w: annotation %.100q", ErrBadAnswer, label)
		}
	}
	return nil
}

// head reads the names of the columns.
func (a *answer) head(row []string) error {
	if len(row) != len(a.columns) {
		return fmt.Errorf("%w: %d names of %d columns", ErrBadAnswer, len(row), len(a.columns))
	}
	for i, name := range row {
		a.columns[i].name = name
	}
	a.heading = false
	if a.failed = len(row) > 0 && row[0] == "error"; a.failed {
		return nil
	}
	if len(row) <= ownColumns || row[resultColumn] != "result" || row[tableColumn] != "table" {
		return fmt.Errorf("%w: a table with the columns %.200q", ErrBadAnswer, row)
	}
	return nil
}

// isEnd fills the empty cells of a row, and reports whether it is the end of the
// answer.
func (a *answer) isEnd(row []string) bool {
	for i := range row {
		if row[i] == "" {
			row[i] = a.columns[i].standard
		}
	}
	return row[resultColumn] == endResult && row[ownColumns] == endCell
}

// guard is a reader that ends when a record is too long.
type guard struct {
	io.Reader
	left int // bytes of this record
}

// Read reads on, as long as the record may.
func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLarge, maxRecord)
	}
	n, err := g.Reader.Read(p)
	g.left -= n
	return n, err
}
