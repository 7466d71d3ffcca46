package packages

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// Tags of an rpm header: the base names of files, the index of each file's folder, the folders, and the modes.
const (
	tagModes      = 1030
	tagDirIndexes = 1116
	tagBaseNames  = 1117
	tagDirNames   = 1118
)

// rpmHeader is a header of an rpm file: the stored bytes of each tag, and the number of its values.
type rpmHeader struct {
	data  map[uint32][]byte
	count map[uint32]uint32
}

// readHeader reads the header at the beginning of data, and returns what follows it.
func readHeader(t *testing.T, data []byte) (rpmHeader, []byte) {
	t.Helper()
	const intro, entry = 16, 16
	if len(data) < intro || !bytes.HasPrefix(data, []byte{0x8e, 0xad, 0xe8, 1}) {
		t.Fatalf("no header of an rpm file: %.16x", data)
	}
	n, size := binary.BigEndian.Uint32(data[8:]), binary.BigEndian.Uint32(data[12:])
	h := rpmHeader{map[uint32][]byte{}, map[uint32]uint32{}}
	index, store := data[intro:intro+entry*n], data[intro+entry*n:][:size]
	for ; len(index) > 0; index = index[entry:] {
		tag := binary.BigEndian.Uint32(index)
		h.data[tag], h.count[tag] = store[binary.BigEndian.Uint32(index[8:]):], binary.BigEndian.Uint32(index[12:])
	}
	return h, data[intro+entry*n+size:]
}

func (h rpmHeader) texts(tag uint32) []string {
	parts := bytes.SplitN(h.data[tag], []byte{0}, int(h.count[tag])+1)
	texts := make([]string, h.count[tag])
	for i := range texts {
		texts[i] = string(parts[i])
	}
	return texts
}

// rpmFiles returns the paths of the regular files of an rpm package.
func rpmFiles(t *testing.T, path string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const lead = 96
	_, rest := readHeader(t, data[lead:]) // the signatures
	padded := (len(data) - len(rest) + 7) / 8 * 8
	h, _ := readHeader(t, data[padded:])
	folders := h.texts(tagDirNames)
	for i, name := range h.texts(tagBaseNames) {
		const kind, regular = 0o170000, 0o100000
		if binary.BigEndian.Uint16(h.data[tagModes][2*i:])&kind == regular {
			all = append(all, folders[binary.BigEndian.Uint32(h.data[tagDirIndexes][4*i:])]+name)
		}
	}
	return all
}
