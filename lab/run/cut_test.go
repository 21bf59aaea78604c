// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
	"weir/lab/traffic/command"
)

// The test binary acts as this program for flows of kind command.
const (
	cutVariable  = "WEIR_TEST_CUT"  // sends datagrams that the kernel cuts to an address
	takeVariable = "WEIR_TEST_TAKE" // receives datagrams at a port
)

// act does the action that the environment requests, if any.
func act() (acted bool, err error) {
	if address := os.Getenv(cutVariable); address != "" {
		return true, sendCut(address)
	}
	if port := os.Getenv(takeVariable); port != "" {
		return true, take(port)
	}
	return false, nil
}

// sendCut sends five datagrams with each call (UDP_SEGMENT, udp(7)), and some single ones.
func sendCut(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	const size, calls = 1000, 60
	for i := range calls {
		segments := 5
		if i%3 == 0 {
			segments = 1
		}
		message := make([]byte, segments*size-7)
		if _, _, err := conn.(*net.UDPConn).WriteMsgUDP(message, segment(size), nil); err != nil {
			return fmt.Errorf("send %d segments: %w", segments, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// segment is the control message of UDP_SEGMENT.
func segment(size uint16) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(b[unix.CmsgLen(0):], size)
	return b
}

func take(port string) error {
	conn, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	for buffer := make([]byte, 1<<16); ; {
		if _, _, err := conn.ReadFrom(buffer); err != nil {
			return err
		}
	}
}

const cutting = `
version: 1
title: a program's datagrams that the kernel cuts
repetitions: 1
attempts: 1
hosts: [a, b]
links: [{name: path, ends: [a, b], rate: 20Mbit, delay: 1ms}]
phases:
  - name: only
    duration: 3s
    flows:
      - {name: program, kind: command, from: a, to: b, family: %d, run: "` + cutVariable + `=b:9000 $WEIR", server: "` + takeVariable + `=9000 $WEIR", port: 9000}
`

// TestCutDatagramsAreConserved: bytes distinguish a foreign frame from the datagrams of
// UDP_SEGMENT, which the kernel does not count.
func TestCutDatagramsAreConserved(t *testing.T) {
	for _, family := range []int{4, 6} {
		for name, foreign := range map[string]func(*saboteur){
			"alone": func(*saboteur) {}, "beside foreign frames": func(s *saboteur) { s.frames("a", "path", 3) },
		} {
			t.Run(fmt.Sprintf("IPv%d, %s", family, name), func(t *testing.T) {
				outcome := spoil(t, fmt.Sprintf(cutting, family), Options{Generator: command.Generator{}}, foreign)
				r := &outcome.Results[0]
				if slices.ContainsFunc(r.Reasons, func(s string) bool { return strings.Contains(s, unix.EIO.Error()) }) {
					testutil.Need(t, "udp-segments-without-checksums", unix.EIO)
				}
				others := slices.DeleteFunc(slices.Clone(r.Reasons), isByTheMachine)
				seen := slices.ContainsFunc(others, func(s string) bool {
					return strings.Contains(s, "a foreign flow, or changed datagrams")
				})
				if seen != (name != "alone") || name == "alone" && len(others) > 0 {
					t.Errorf("the reasons are %q", r.Reasons)
				}
			})
		}
	}
}
