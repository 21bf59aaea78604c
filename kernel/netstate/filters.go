// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Messages of nftables (linux/netfilter/nf_tables.h) and of the old iptables
// (linux/netfilter_ipv4/ip_tables.h).
const (
	nftGetGeneration = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN
	nftGenerationID  = 1 // NFTA_GEN_ID

	tableInfo    = 64 // IPT_SO_GET_INFO
	tableEntries = 65 // IPT_SO_GET_ENTRIES
	infoSize     = 32 + 4*(1+5+5+2)
	entriesHead  = 40 // name, size and padding
)

// filters reads the generation of the nftables rules, which counts their changes, and the rules of
// the old iptables.
func (r *reader) filters() error {
	generation, err := nftGeneration()
	if err != nil {
		return fmt.Errorf("read the generation of the nftables rules: %w", err)
	}
	if generation != "" {
		r.state["nftables rules"] = "generation " + generation
	}
	for _, family := range []struct {
		file          string
		socket, level int
		entry         int // size of an entry's fixed part; its counters are the last 16 bytes
	}{{"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 112}, {"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 168}} {
		names, err := os.ReadFile(family.file)
		if err != nil {
			continue // not in this kernel
		}
		for _, name := range strings.Fields(string(names)) {
			rules, err := oldRules(name, family.socket, family.level, family.entry)
			if err != nil {
				return fmt.Errorf("read the iptables rules of table %s: %w", name, err)
			}
			if rules != "" {
				r.state[fmt.Sprintf("iptables rules of %s in table %s", strings.TrimSuffix(family.file[len("/proc/thread-self/net/"):], "_names"), name)] = rules
			}
		}
	}
	return nil
}

// nftGeneration returns "" if the kernel has no nftables.
func nftGeneration() (string, error) {
	request := nl.NewNetlinkRequest(nftGetGeneration, 0)
	request.AddData(raw{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0})
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, message := range messages {
		all, err := body(message, 4)
		if err != nil {
			return "", err
		}
		if id := find(all, nftGenerationID); len(id) == 4 {
			return fmt.Sprint(binary.BigEndian.Uint32(id)), nil
		}
	}
	return "", nil
}

// oldRules describes a table of legacy iptables, and returns "" for a table with only its initial
// rules.
func oldRules(table string, family, level, fixed int) (string, error) {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	info := make([]byte, infoSize)
	copy(info, table)
	if err := getOption(fd, level, tableInfo, info); err != nil {
		return "", err
	}
	count, size := binary.NativeEndian.Uint32(info[infoSize-8:]), binary.NativeEndian.Uint32(info[infoSize-4:])
	entries := make([]byte, entriesHead+int(size))
	copy(entries, table)
	binary.NativeEndian.PutUint32(entries[32:], size)
	if err := getOption(fd, level, tableEntries, entries); err != nil {
		return "", err
	}
	entries = entries[entriesHead:]
	for at := 0; at+fixed <= len(entries); {
		clear(entries[at+fixed-16 : at+fixed])
		next := int(binary.NativeEndian.Uint16(entries[at+fixed-22:]))
		if next <= 0 {
			break
		}
		at += next
	}
	return fmt.Sprintf("%d rules, sum %x", count, sha256.Sum256(entries))[:40], nil
}

func getOption(fd, level, option int, into []byte) error {
	length := uint32(len(into))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&into[0])), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
