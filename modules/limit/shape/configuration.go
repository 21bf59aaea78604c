// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// KeyOf returns the key of an active shaper; there is false for one without a device.
func (h Host) KeyOf(l Shaper) (key uint32, there bool, err error) {
	if l.Device == "" {
		return keyOf(l.Index, l.Direction), true, nil
	}
	r, err := h.find(l.Index, l.Direction)
	if err != nil || r == nil {
		return 0, false, err
	}
	return uint32(r.Taken.Index), true, nil
}

// Configurations returns the map with the configuration of each shaper. The caller closes it. The
// error is fs.ErrNotExist without a data plane.
func (h Host) Configurations() (*ebpf.Map, error) {
	p, err := open(h.loaded())
	if err != nil {
		return nil, err
	}
	m, err := p.maps.DelayConfigs.Clone()
	if err != nil {
		err = fmt.Errorf("open configurations of shapers: %w", err)
	}
	return m, errors.Join(err, p.close())
}

// Configuration returns a shaper as a value of the map of Configurations, with packets that wait in
// fq.
func Configuration(l Shaper) []byte {
	text, err := binary.Append(nil, binary.NativeEndian, l.config(Fq))
	if err != nil {
		panic(err) // the type has a fixed size
	}
	return text
}
