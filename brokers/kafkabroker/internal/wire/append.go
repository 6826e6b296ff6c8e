package wire

import "encoding/binary"

// AppendInt16 appends v big-endian, as the other fixed numbers.
func AppendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }

// AppendInt32 appends four bytes.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends eight bytes.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendString appends s with a length of two bytes.
func AppendString(b []byte, s string) []byte {
	return append(AppendInt16(b, int16(len(s))), s...)
}

// AppendCompactString appends s with a length of variable size.
func AppendCompactString(b []byte, s string) []byte {
	return append(AppendCompactCount(b, len(s)), s...)
}

// AppendBytes appends v with a length of four bytes; nil becomes null.
func AppendBytes(b, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, -1)
	}
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendVarBytes appends v with a zigzag length; nil becomes null.
func AppendVarBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// AppendCompactCount appends the length of a compact array or string.
func AppendCompactCount(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)+1) }

// AppendCount is AppendCompactCount in a flexible layout, else four bytes.
func AppendCount(b []byte, n int, flexible bool) []byte {
	if flexible {
		return AppendCompactCount(b, n)
	}
	return AppendInt32(b, int32(n))
}

// AppendHeader begins a request: its size, which [Finish] fills in, key,
// version, correlation id and client id, and no tags where it is flexible.
func AppendHeader(b []byte, key, version int16, correlation int32, client string, flexible bool) []byte {
	b = AppendInt32(b, 0)
	b = AppendInt16(b, key)
	b = AppendInt16(b, version)
	b = AppendInt32(b, correlation)
	b = AppendString(b, client)
	if flexible {
		b = append(b, 0)
	}
	return b
}

// Finish writes the size of the request that b is.
func Finish(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// PutInt32 writes v over the first four bytes of b.
func PutInt32(b []byte, v int32) { binary.BigEndian.PutUint32(b, uint32(v)) }
