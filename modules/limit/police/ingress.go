// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// needIngress attaches the program for ingress where the others are attached and it is not.
func (p *DataPlane) needIngress() error {
	if err := p.askHeaders(1); err != nil {
		return err
	}
	if p.ingress || p.path == "" && p.dir == "" {
		p.ingress = true
		return nil
	}
	if p.path == "" {
		return fmt.Errorf("attach %s: it is not known where the pinned limits are attached", ebpf.AttachCGroupInetIngress)
	}
	return p.attachIngress()
}

// askHeaders says whether sockets are to be asked for the callback by which receive windows are
// set; those that are open are only asked by Adopt.
func (p *DataPlane) askHeaders(ask uint32) error {
	if p.settings.Ingress == ask {
		return nil
	}
	p.settings.Ingress = ask
	if err := p.objects.LimitCurrent.Put(uint32(0), p.settings); err != nil {
		return fmt.Errorf("set receive windows: %w", err)
	}
	return nil
}

func (p *DataPlane) attachIngress() (err error) {
	if p.inward, err = p.attach(ebpf.AttachCGroupInetIngress, p.objects.LimitIngress); err != nil {
		return err
	}
	p.ingress = true
	if p.dir == "" {
		return nil
	}
	// A pin that is there is of an attachment that is not in place.
	if err := unpin(p.dir, linkPin(ingressPin)); err != nil {
		return err
	}
	return pinLink(p.inward, p.dir, ingressPin)
}

// EndIngress detaches the program for ingress where no limit of that direction is left. The others
// are attached apart from it and stay as they are. Killed half-way it has detached it, or can be
// called again.
func (p *DataPlane) EndIngress() error {
	if !p.ingress {
		return nil
	}
	if limited, err := p.limitsIngress(); err != nil || limited {
		return err
	}
	if err := p.askHeaders(0); err != nil {
		return err
	}
	attached, err := p.takeIngress()
	if err != nil || attached == nil {
		return err
	}
	// Not by its last reference alone, which the kernel would see to in its own time: a limit of
	// ingress that comes at once would have two of them, and packets be charged twice. Linux before
	// 5.10 knows no other way.
	if err = attached.Detach(); errors.Is(err, link.ErrNotSupported) {
		err = nil
	}
	if err = errors.Join(err, attached.Close()); err != nil {
		return fmt.Errorf("detach %s: %w", ebpf.AttachCGroupInetIngress, err)
	}
	return nil
}

// takeIngress removes the pin of the attachment for ingress and returns the attachment, whose last
// reference it now is; nil where there is none.
func (p *DataPlane) takeIngress() (attached link.Link, err error) {
	attached, p.inward, p.ingress = p.inward, nil, false
	if p.dir == "" {
		return attached, nil
	}
	if attached == nil {
		attached, err = link.LoadPinnedLink(filepath.Join(p.dir, linkPin(ingressPin)), nil)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, filePermission(fmt.Errorf("open attachment: %w", err))
		}
	}
	if err := unpin(p.dir, linkPin(ingressPin)); err != nil {
		return nil, errors.Join(err, attached.Close())
	}
	return attached, nil
}

// limitsIngress says whether a scope has a limit of ingress.
func (p *DataPlane) limitsIngress() (bool, error) {
	indices, configs := make([]uint32, 2*p.scopes), make([]limitLimitConfig, 2*p.scopes)
	n, err := p.objects.LimitConfigs.BatchLookup(new(ebpf.MapBatchCursor), indices, configs, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, fmt.Errorf("read limits: %w", err)
	}
	for i := range n {
		if Direction(indices[i]%2) == Ingress && configs[i].Rate != 0 {
			return true, nil
		}
	}
	return false, nil
}
