// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Commands of linux/ethtool.h. The library safchain/ethtool reads all feature names into a megabyte
// for each command; labs have hundreds of devices.
const (
	getSetInfo  = 0x37 // ETHTOOL_GSSET_INFO
	getStrings  = 0x1b // ETHTOOL_GSTRINGS
	getFeatures = 0x3a // ETHTOOL_GFEATURES
	setFeatures = 0x3b // ETHTOOL_SFEATURES

	featureSet  = 4   // ETH_SS_FEATURES
	nameLength  = 32  // ETH_GSTRING_LEN
	maxFeatures = 256 // Linux 7.2 has 68
)

// featureState is the state of a feature in the kernel.
type featureState struct {
	Available, Requested, Active, NeverChanged bool
}

// asker queries devices of the namespace in which it was opened.
type asker struct{ fd int }

// asking calls f with an asker for the namespace.
func asking(ns *netns.Namespace, f func(asker) error) error {
	var a asker
	err := ns.Do(func() (err error) {
		a.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(a.fd) }()
	return f(a)
}

// do passes a structure that begins with the command to the kernel.
func (a asker) do(dev string, data unsafe.Pointer) error {
	if len(dev) >= unix.IFNAMSIZ {
		return unix.ENODEV
	}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: data}
	copy(request.name[:], dev)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(a.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// features returns the state of every feature of a device.
func (a asker) features(dev string) (map[string]featureState, error) {
	names, err := a.names(dev)
	if err != nil {
		return nil, err
	}
	var answer struct {
		command, size uint32
		blocks        [maxFeatures / 32]struct{ available, requested, active, never uint32 }
	}
	answer.command, answer.size = getFeatures, blocks(names)
	if err := a.do(dev, unsafe.Pointer(&answer)); err != nil {
		return nil, err
	}
	states := make(map[string]featureState, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		block, bit := answer.blocks[i/32], uint32(1)<<(i%32)
		states[name] = featureState{block.available&bit != 0, block.requested&bit != 0, block.active&bit != 0, block.never&bit != 0}
	}
	return states, nil
}

// change switches features on or off.
func (a asker) change(dev string, want map[string]bool) error {
	names, err := a.names(dev)
	if err != nil {
		return err
	}
	var order struct {
		command, size uint32
		blocks        [maxFeatures / 32]struct{ valid, requested uint32 }
	}
	order.command, order.size = setFeatures, blocks(names)
	for i, name := range names {
		if on, wanted := want[name]; wanted && name != "" {
			bit := uint32(1) << (i % 32)
			order.blocks[i/32].valid |= bit
			if on {
				order.blocks[i/32].requested |= bit
			}
		}
	}
	return a.do(dev, unsafe.Pointer(&order))
}

// blocks returns the number of 32-bit words for all features.
func blocks(names []string) uint32 { return uint32(len(names)+31) / 32 }

// featureNames caches the kernel's names, which are the same for all devices.
var featureNames struct {
	sync.Mutex // guards known
	known      []string
}

// names returns the names of features by number, with gaps.
func (a asker) names(dev string) ([]string, error) {
	featureNames.Lock()
	defer featureNames.Unlock()
	if featureNames.known != nil {
		return featureNames.known, nil
	}
	info := struct {
		command, reserved uint32
		sets              uint64
		count             uint32
	}{command: getSetInfo, sets: 1 << featureSet}
	if err := a.do(dev, unsafe.Pointer(&info)); err != nil {
		return nil, err
	}
	if info.count > maxFeatures {
		return nil, fmt.Errorf("the kernel has %d features, more than the %d that are known to exist", info.count, maxFeatures)
	}
	answer := struct {
		command, set, count uint32
		names               [maxFeatures][nameLength]byte
	}{command: getStrings, set: featureSet, count: info.count}
	if err := a.do(dev, unsafe.Pointer(&answer)); err != nil {
		return nil, err
	}
	names := make([]string, info.count)
	for i := range names {
		names[i] = unix.ByteSliceToString(answer.names[i][:])
	}
	featureNames.known = names
	return names, nil
}
