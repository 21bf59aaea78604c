// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"testing"

	"weir/lab/link/model"
)

// ip builds an Ethernet frame with the given number of VLAN tags and an IPv4 or IPv6 header with
// this ECN field.
func ip(version int, ecn byte, tags int) []byte {
	frame := make([]byte, 12)
	for range tags {
		frame = append(frame, 0x81, 0x00, 0x00, 0x2a)
	}
	if version == 6 {
		frame = append(frame, 0x86, 0xdd)
		header := make([]byte, 40+8)
		header[0], header[1] = 0x6b, 0x80|ecn<<4|0x5 // traffic class 0xb8|ecn, then a flow label
		return append(frame, header...)
	}
	frame = append(frame, 0x08, 0x00)
	header := []byte{0x45, 0xb8 | ecn, 0, 28, 1, 2, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4, 0, 8, 0, 0}
	binary.BigEndian.PutUint16(header[10:], ^sum(header[:20]))
	return append(frame, header...)
}

// sum is the ones' complement sum of RFC 1071, computed word by word.
func sum(b []byte) uint16 {
	var total uint32
	for i := 0; i+1 < len(b); i += 2 {
		total += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

func TestMarkCE(t *testing.T) {
	for _, version := range []int{4, 6} {
		for tags := range 3 {
			for ecn := byte(0); ecn < 4; ecn++ {
				got, want := ip(version, ecn, tags), ip(version, ecn, tags)
				if ecn != 0 {
					want = ip(version, 3, tags)
				}
				if marked := model.MarkCE(got); marked != (ecn != 0) || !bytes.Equal(got, want) {
					t.Errorf("IPv%d, %d tags, ECN %d: marked %v\n got %x\nwant %x", version, tags, ecn, marked, got, want)
				}
			}
		}
	}
}

func TestMarkCEKeepsEveryChecksum(t *testing.T) {
	for id := range 0x10000 { // every value of the checksum
		frame := ip(4, 1, 0)
		binary.BigEndian.PutUint16(frame[18:], uint16(id))
		binary.BigEndian.PutUint16(frame[24:], 0)
		binary.BigEndian.PutUint16(frame[24:], ^sum(frame[14:34]))
		if !model.MarkCE(frame) || sum(frame[14:34]) != 0xffff {
			t.Fatalf("identification %#x: the checksum is wrong after marking", id)
		}
	}
}

func TestOtherFramesAreLeftAlone(t *testing.T) {
	arp := append(make([]byte, 12), 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1)
	for _, frame := range [][]byte{nil, make([]byte, 13), arp, ip(4, 1, 0)[:33], ip(6, 1, 0)[:53], ip(4, 1, 1)[:16]} {
		before := bytes.Clone(frame)
		if model.MarkCE(frame) || !bytes.Equal(frame, before) {
			t.Errorf("frame %x was taken for ECN-capable", before)
		}
	}
}

func TestDamageInvertsExactlyOneBit(t *testing.T) {
	for bit := range 8 * 50 {
		frame := make([]byte, 64)
		model.Damage(frame, bit)
		ones := 0
		for i, b := range frame {
			if ones += bits.OnesCount8(b); b != 0 && (i != 14+bit/8 || b != 0x80>>(bit%8)) {
				t.Errorf("bit %d: octet %d became %#x", bit, i, b)
			}
		}
		if ones != 1 {
			t.Errorf("bit %d: %d bits were inverted", bit, ones)
		}
	}
}

func FuzzMarkCE(f *testing.F) {
	for _, seed := range [][]byte{ip(4, 1, 0), ip(6, 2, 1), ip(4, 0, 2), {}, {0x81, 0}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := bytes.Clone(frame)
		if !model.MarkCE(frame) && !bytes.Equal(frame, before) {
			t.Errorf("not marked, yet changed: %x to %x", before, frame)
		}
	})
}
