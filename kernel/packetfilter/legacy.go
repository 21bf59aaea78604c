// SPDX-License-Identifier: Apache-2.0

package packetfilter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// table is the layout of one iptables-legacy family (linux/netfilter_ipv4/ip_tables.h, IPv6 too).
type table struct {
	names      string // file of the tables in use
	command    string
	domain     int
	level      int
	entry      int // size of an entry without matches and target
	target     int // offset of target_offset in an entry
	ipv4, ipv6 bool
}

var tables = []table{
	{"/proc/thread-self/net/ip_tables_names", "iptables-legacy", unix.AF_INET, unix.IPPROTO_IP, 112, 88, true, false},
	{"/proc/thread-self/net/ip6_tables_names", "ip6tables-legacy", unix.AF_INET6, unix.IPPROTO_IPV6, 168, 140, false, true},
}

// legacy lists tables of iptables-legacy with rules or a drop policy.
func legacy() (all []Filter, err error) {
	for _, t := range tables {
		names, err := os.ReadFile(t.names)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list tables of %s: %w", t.command, err)
		}
		for _, name := range strings.Fields(string(names)) {
			empty, err := t.empty(name)
			if err != nil {
				return nil, fmt.Errorf("read table %s of %s: %w", name, t.command, err)
			}
			if !empty {
				all = append(all, Filter{Name: t.command + " table " + name, IPv4: t.ipv4, IPv6: t.ipv6})
			}
		}
	}
	return all, nil
}

const (
	getInfo    = 64 // IPT_SO_GET_INFO
	getEntries = 65
	nameSize   = 32
	infoSize   = nameSize + 4 + 2*5*4 + 4 + 4
)

// empty reports whether a table has only policies that accept.
func (t table) empty(name string) (bool, error) {
	fd, err := unix.Socket(t.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	info := make([]byte, infoSize)
	copy(info, name)
	if err := getsockopt(fd, t.level, getInfo, info); err != nil {
		return false, err
	}
	size := int(native.Uint32(info[infoSize-4:]))
	const header = nameSize + 8 // the size, and padding
	entries := make([]byte, header+size)
	copy(entries, name)
	native.PutUint32(entries[nameSize:], uint32(size))
	if err := getsockopt(fd, t.level, getEntries, entries); err != nil {
		return false, err
	}
	return t.accepts(entries[header:]), nil
}

// accepts reports whether each entry is a policy that accepts, or the error entry at the end.
func (t table) accepts(entries []byte) bool {
	const (
		targetName = 2 // in xt_entry_target, behind its size
		verdict    = 32
		accept     = -2 // -NF_ACCEPT - 1
	)
	for len(entries) >= t.entry {
		target, next := int(native.Uint16(entries[t.target:])), int(native.Uint16(entries[t.target+2:]))
		if target < t.entry || next < target+verdict+4 || next > len(entries) {
			return false
		}
		switch name := text(entries[target+targetName : target+verdict]); {
		case name == "ERROR" && next == len(entries):
		case name != "" || target != t.entry || int32(native.Uint32(entries[target+verdict:])) != accept || !zero(entries[:t.target-4]):
			return false
		}
		entries = entries[next:]
	}
	return true
}

func zero(b []byte) bool {
	for _, one := range b {
		if one != 0 {
			return false
		}
	}
	return true
}

func getsockopt(fd, level, option int, value []byte) error {
	length := uint32(len(value))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&value[0])), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ipvs reports virtual services: their replies pass the forward path.
func ipvs() ([]Filter, error) {
	text, err := os.ReadFile("/proc/thread-self/net/ip_vs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list IPVS services: %w", err)
	}
	const headings = 3
	if strings.Count(string(text), "\n") <= headings {
		return nil, nil
	}
	return []Filter{{Name: "IPVS services (ipvsadm -L)", IPv4: true, IPv6: true}}, nil
}
