package driver

import "strings"

// Slots is how many slots a Cluster has.
const Slots = 1 << 14

// Slot returns the Cluster slot of a key or a sharded channel. If the name has a hash tag, a part
// in braces that is not empty, only that part counts.
func Slot(key string) uint16 {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	var sum uint16
	for i := range len(key) {
		sum = sum<<8 ^ crc16[byte(sum>>8)^key[i]]
	}
	return sum % Slots
}

// crc16 is the table of CRC-16/XMODEM: polynomial 0x1021, start value 0.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= 0x1021
			}
		}
		table[i] = sum
	}
	return table
}()
