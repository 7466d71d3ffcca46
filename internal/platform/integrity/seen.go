package integrity

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	maxLine          = 64 << 10
	maxObsoleteLines = 1000 // obsolete lines before the file is rewritten
)

// seenKey is the last reading of a key.
type seenKey struct {
	revision uint64
	deleted  bool
}

// line is one entry of the file. With Created it starts a new list, for the bucket created at that time. A key
// without a revision is removed. Last alone is a sequence of the bucket.
type line struct {
	Created  *time.Time `json:"created,omitempty"`
	Last     uint64     `json:"last,omitempty"`
	Key      string     `json:"key,omitempty"`
	Revision uint64     `json:"revision,omitempty"`
	Deleted  bool       `json:"deleted,omitempty"`
}

// seen has the revisions that a reader has seen, and their file.
type seen struct {
	path                string    // empty: in memory only
	file                *os.File  // nil until the first write
	lines               int       // in the file
	bad                 int       // damaged lines
	at                  time.Time // time of the file's last write before Open
	lastWriteIncomplete bool      // the last write was incomplete
	created             time.Time
	last                uint64 // the highest sequence that was read
	keys                map[string]seenKey
}

// is reports whether the contents are of the bucket that was read last, and not older.
func (s *seen) is(c Contents) bool { return s.created.Equal(c.Created) && c.Last >= s.last }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// openSeen reads a file. A missing file is empty.
func openSeen(path string) (*seen, error) {
	s := &seen{path: path, keys: map[string]seenKey{}}
	if path == "" {
		return s, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	s.at = info.ModTime()
	in := bufio.NewReaderSize(file, maxLine)
	for {
		text, err := in.ReadSlice('\n')
		if len(text) > 0 {
			if l, ok := decodeLine(bytes.TrimRight(text, "\n")); ok {
				s.apply(l)
			} else if len(text) > 1 {
				s.bad++
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return s, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull): // the rest of a long line is another, damaged line
			return nil, err
		}
	}
}

func decodeLine(text []byte) (line, bool) {
	var l line
	sum, data, found := bytes.Cut(text, []byte(" "))
	if !found || string(sum) != sumOf(data) || json.Unmarshal(data, &l) != nil {
		return line{}, false
	}
	return l, true
}

func sumOf(data []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli())) }

func (s *seen) apply(l line) {
	if l.Created != nil {
		s.created, s.last = *l.Created, l.Last
		clear(s.keys)
		return
	}
	if l.Last > 0 {
		s.last = max(s.last, l.Last)
		return
	}
	if l.Revision == 0 {
		delete(s.keys, l.Key)
		return
	}
	s.keys[l.Key] = seenKey{l.Revision, l.Deleted}
	s.last = max(s.last, l.Revision)
}

// storeLines stores lines, in order.
func (s *seen) storeLines(lines ...line) error {
	for _, l := range lines {
		s.apply(l)
	}
	if s.path == "" || len(lines) == 0 {
		return nil
	}
	if s.file == nil || s.lines > 2*len(s.keys)+maxObsoleteLines {
		return s.rewrite()
	}
	return s.append(lines)
}

func (s *seen) append(lines []line) error {
	var out bytes.Buffer
	if s.lastWriteIncomplete {
		out.WriteByte('\n')
	}
	for _, l := range lines {
		if err := encodeLine(&out, l); err != nil {
			return err
		}
	}
	s.lines += len(lines)
	n, err := s.file.Write(out.Bytes())
	s.lastWriteIncomplete = n > 0 && out.Bytes()[n-1] != '\n'
	return err
}

func encodeLine(out *bytes.Buffer, l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	out.WriteString(sumOf(data))
	out.WriteByte(' ')
	out.Write(data)
	out.WriteByte('\n')
	return nil
}

// rewrite replaces the file by its valid entries.
func (s *seen) rewrite() error {
	s.close()
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	temporary := s.path + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	s.file, s.lines, s.lastWriteIncomplete = file, 0, false
	err = s.append(s.all())
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, s.path)
	}
	if err != nil {
		s.close()
	}
	return err
}

// all returns the valid lines in order of revision, so a truncated file has older revisions only.
func (s *seen) all() []line {
	lines := []line{{Created: &s.created, Last: s.last}}
	for _, key := range slices.SortedFunc(maps.Keys(s.keys), func(a, b string) int {
		return cmp.Compare(s.keys[a].revision, s.keys[b].revision)
	}) {
		lines = append(lines, line{Key: key, Revision: s.keys[key].revision, Deleted: s.keys[key].deleted})
	}
	return lines
}

func (s *seen) close() {
	if s.file != nil {
		_ = s.file.Close() // the kernel has the data
		s.file = nil
	}
}
