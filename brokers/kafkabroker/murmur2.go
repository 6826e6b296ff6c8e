package kafkabroker

import "encoding/binary"

// murmur2 is the hash by which Java's producer places keys.
//
// Source: MurmurHash2 by Austin Appleby, with the seed of Kafka's Utils.murmur2.
func murmur2(key []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
