package message

import "encoding/binary"

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
// bytes. Each such string has exactly one ID. The zero ID is the empty string. In a UUID or hexadecimal digits, byte i of Hi has the
// digits i and i+8, and byte i of Lo has the digits i+16 and i+24.
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
		return packUUID(s)
	case n == hexLen:
		return packHex(s)
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
	if id.Form != FormUUID && id.Form != FormHex {
		return id.appendShort(dst)
	}
	var digits [hexLen]byte
	for i, v := range [...]uint64{id.Hi >> 4, id.Hi, id.Lo >> 4, id.Lo} {
		binary.BigEndian.PutUint64(digits[8*i:], v&(0x0f*each))
	}
	for i, v := range digits {
		if id.Form == FormUUID && (i == 8 || i == 12 || i == 16 || i == 20) {
			dst = append(dst, '-')
		}
		dst = append(dst, "0123456789abcdef"[v])
	}
	return dst
}

func (id ID) appendShort(dst []byte) []byte {
	if id.Form == FormOther {
		return dst
	}
	var b [shortest]byte
	binary.BigEndian.PutUint64(b[:8], id.Hi)
	binary.BigEndian.PutUint64(b[8:], id.Lo)
	return append(dst, b[:min(int(id.Form), shortest)]...)
}

// String returns the string of a packed ID.
func (id ID) String() string {
	var b [uuidLen]byte
	return string(id.Append(b[:0]))
}

// packUUID packs 8-4-4-4-12 lower-case digits. s has 36 bytes.
func packUUID(s []byte) ID {
	_ = s[uuidLen-1]
	a, bad1 := unhex(binary.BigEndian.Uint64(s))
	b, bad2 := unhex(uint64(binary.BigEndian.Uint32(s[9:]))<<32 | uint64(binary.BigEndian.Uint32(s[14:])))
	c, bad3 := unhex(uint64(binary.BigEndian.Uint32(s[19:]))<<32 | uint64(binary.BigEndian.Uint32(s[24:])))
	d, bad4 := unhex(binary.BigEndian.Uint64(s[28:]))
	if bad1|bad2|bad3|bad4 != 0 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{Form: FormOther}
	}
	return ID{a<<4 | b, c<<4 | d, FormUUID}
}

// packHex packs 32 lower-case digits. s has 32 bytes.
func packHex(s []byte) ID {
	_ = s[hexLen-1]
	a, bad1 := unhex(binary.BigEndian.Uint64(s))
	b, bad2 := unhex(binary.BigEndian.Uint64(s[8:]))
	c, bad3 := unhex(binary.BigEndian.Uint64(s[16:]))
	d, bad4 := unhex(binary.BigEndian.Uint64(s[24:]))
	if bad1|bad2|bad3|bad4 != 0 {
		return ID{Form: FormOther}
	}
	return ID{a<<4 | b, c<<4 | d, FormHex}
}

// each times a byte has that byte eight times.
const each = 0x0101010101010101

// unhex decodes eight lower-case hexadecimal digits at once, one in each byte. bad is 0 if all are valid.
func unhex(x uint64) (digits, bad uint64) {
	v := x&(0x0f*each) + x>>6&each*9      // bit 6 is set for letters: 'a' is 1+9
	letter := (v + 0x76*each) >> 7 & each // 1 where v is 10 or more
	return v, (v + 0x30*each + letter*0x27) ^ x | v&(0xf0*each)
}
