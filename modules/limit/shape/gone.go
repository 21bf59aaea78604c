// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"

	"weir/kernel/rtnl"
)

// names are those that the devices have now, by their indices.
func names() (map[int]string, error) {
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	all, err := links.Devices()
	named := map[int]string{}
	for _, d := range all {
		named[d.Index] = d.Name
	}
	return named, err
}

func deleteDevice(name string) error {
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	return links.Delete(name)
}

// beginWhereItIs begins a line of which the device may go meanwhile: then it ends what it left.
func (h Host) beginWhereItIs(p *programs, l Line) error {
	err := h.begin(p, l)
	if err == nil {
		return nil
	}
	named, unseen := names()
	if _, there := named[l.Index]; there || unseen != nil {
		return errors.Join(err, unseen)
	}
	left, err := h.find(l.Index, l.Direction)
	if err != nil || left == nil {
		return err
	}
	return h.end(p, left)
}

// endGone ends the lines of devices that have gone.
func (h Host) endGone(p *programs) error {
	named, err := names()
	if err != nil {
		return err
	}
	all, err := h.records()
	for _, r := range all {
		if _, there := named[r.Index]; !there {
			err = errors.Join(err, h.end(p, r))
		}
	}
	return err
}
