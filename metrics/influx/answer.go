package influx

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxRecord bounds one line of a response, in bytes: the names of a series and its value, which may be a text.
const maxRecord = 1 << 20

// answer decodes the response to a query: tables of annotated CSV, then the table that ends every query.
type answer struct {
	csv     *csv.Reader
	guard   *guard
	columns []columnMeta
	heading bool   // annotations were read; the names of the columns follow
	failed  bool   // the table is an error
	table   string // table of the last row; "": the next row starts a new one
	ended   bool
}

// columnMeta has the annotations and the name of a column.
type columnMeta struct {
	name, kind string
	standard   string // value of an empty cell
}

// The first columns of every table.
const (
	resultColumn = iota
	tableColumn
	ownColumns // first column of the table itself
)

func newAnswer(r io.Reader) *answer {
	g := &guard{Reader: r, left: maxRecord}
	a := &answer{csv: csv.NewReader(g), guard: g}
	a.csv.FieldsPerRecord, a.csv.ReuseRecord = -1, true
	return a
}

// next returns the next row, and whether it is the first of its table. The cells match a.columns and are valid until
// the next call. After the last row of a complete response the error is io.EOF. Other errors are ErrBadAnswer, a
// *answerError, or the reader's.
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
			err = &answerError{Status: http.StatusOK, Message: row[0]}
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

// end returns the error for the end of the input.
func (a *answer) end(err error) error {
	if _, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	if err == io.EOF && (!a.ended || a.heading || a.failed) {
		return fmt.Errorf("%w: it ends early", ErrBadAnswer)
	}
	return err
}

// annotate reads an annotation of the next table's columns.
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
		case "#group": // not used
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

// isEnd fills the empty cells of a row, and reports whether the row ends the response.
func (a *answer) isEnd(row []string) bool {
	for i := range row {
		if row[i] == "" {
			row[i] = a.columns[i].standard
		}
	}
	return row[resultColumn] == endResult && row[ownColumns] == endCell
}

// guard is a reader that fails when a record is too long.
type guard struct {
	io.Reader
	left int // bytes left for this record
}

// Read reads while the record is within its bound.
func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLarge, maxRecord)
	}
	n, err := g.Reader.Read(p)
	g.left -= n
	return n, err
}
