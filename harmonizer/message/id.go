package message

import (
	"encoding/binary"
	"encoding/hex"
)

// Form is how an ID stores its string. Below FormUUID it is the length of the string itself,
// at most 16 bytes.
type Form uint8

// Forms of an ID, other than a short string.
const (
	FormUUID  Form = 17  // lower case, with dashes
	FormHex   Form = 18  // 32 lower-case hexadecimal digits
	FormOther Form = 255 // any other string; not packed
)

const (
	shortest = 16 // bytes of the longest string that is stored as it is
	uuidLen  = 36
	hexLen   = 32
)

// ID is a string in 17 bytes: a UUID, 32 hexadecimal digits, or any string of at most 16
// bytes. Each such string has exactly one ID. The zero ID is the empty string.
type ID struct {
	Hi, Lo uint64
	Form   Form
}

// Pack returns the ID of a string. If the string does not fit or has upper-case digits, only
// the Form is set, to FormOther.
func Pack(s []byte) ID {
	switch n := len(s); {
	case n <= shortest:
		return packShort(s)
	case n == uuidLen:
		if hi, lo, ok := unhexUUID(s); ok {
			return ID{hi, lo, FormUUID}
		}
	case n == hexLen:
		if hi, lo, ok := unhex32(s); ok {
			return ID{hi, lo, FormHex}
		}
	}
	return ID{Form: FormOther}
}

func packShort(s []byte) ID {
	id := ID{Form: Form(len(s))}
	var b [shortest]byte
	copy(b[:], s)
	id.Hi, id.Lo = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	return id
}

// Append appends the string of a packed ID.
func (id ID) Append(dst []byte) []byte {
	var b [shortest]byte
	binary.BigEndian.PutUint64(b[:8], id.Hi)
	binary.BigEndian.PutUint64(b[8:], id.Lo)
	switch id.Form {
	case FormHex:
		return hex.AppendEncode(dst, b[:])
	case FormUUID:
		dst = append(hex.AppendEncode(dst, b[:4]), '-')
		dst = append(hex.AppendEncode(dst, b[4:6]), '-')
		dst = append(hex.AppendEncode(dst, b[6:8]), '-')
		dst = append(hex.AppendEncode(dst, b[8:10]), '-')
		return hex.AppendEncode(dst, b[10:])
	case FormOther:
		return dst
	}
	return append(dst, b[:min(int(id.Form), shortest)]...)
}

// String returns the string of a packed ID.
func (id ID) String() string {
	var b [uuidLen]byte
	return string(id.Append(b[:0]))
}

// unhexUUID decodes 8-4-4-4-12 lower-case digits; s has 36 bytes.
func unhexUUID(s []byte) (hi, lo uint64, ok bool) {
	_ = s[uuidLen-1]
	if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return 0, 0, false
	}
	a, bad1 := unhex(binary.BigEndian.Uint64(s))
	b, bad2 := unhex(uint64(binary.BigEndian.Uint32(s[9:]))<<32 | uint64(binary.BigEndian.Uint32(s[14:])))
	c, bad3 := unhex(uint64(binary.BigEndian.Uint32(s[19:]))<<32 | uint64(binary.BigEndian.Uint32(s[24:])))
	d, bad4 := unhex(binary.BigEndian.Uint64(s[28:]))
	return a<<32 | b, c<<32 | d, bad1|bad2|bad3|bad4 == 0
}

// unhex32 decodes 32 lower-case digits; s has 32 bytes.
func unhex32(s []byte) (hi, lo uint64, ok bool) {
	_ = s[hexLen-1]
	a, bad1 := unhex(binary.BigEndian.Uint64(s))
	b, bad2 := unhex(binary.BigEndian.Uint64(s[8:]))
	c, bad3 := unhex(binary.BigEndian.Uint64(s[16:]))
	d, bad4 := unhex(binary.BigEndian.Uint64(s[24:]))
	return a<<32 | b, c<<32 | d, bad1|bad2|bad3|bad4 == 0
}

// unhex decodes eight lower-case hexadecimal digits at once, the first in the highest byte.
// bad is 0 if all are valid.
func unhex(x uint64) (value, bad uint64) {
	const each = 0x0101010101010101
	v := x&(0x0f*each) + x>>6&each*9      // bit 6 is set for letters: 'a' is 1+9
	letter := (v + 0x76*each) >> 7 & each // 1 where v is 10 or more
	bad = (v + 0x30*each + letter*0x27) ^ x | v&(0xf0*each)
	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return (v | v>>16) & 0xffffffff, bad
}
