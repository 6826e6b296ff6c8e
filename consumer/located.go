package consumer

import (
	"slices"
	"sync"
)

// located holds what one pass over a payload found for all extractors of a
// route. It belongs to one call of resolve.
type located struct {
	paths []path
	found [maxFields][]byte
	done  bool
	err   error
}

var locateds = sync.Pool{New: func() any { return new(located) }}

// locate lends the delivery one pass for these paths; end it with unlocate.
func (d *Delivery) locate(paths []path) {
	l := locateds.Get().(*located)
	l.paths = paths
	d.located = l
}

func (d *Delivery) unlocate() {
	l := d.located
	d.located = nil
	*l = located{}
	locateds.Put(l)
}

// find returns the raw value at each of the paths, nil where there is none.
func (d *Delivery) find(paths []path, found [][]byte) error {
	l := d.located
	if l == nil {
		return lookup(d.Value, paths, found)
	}
	if !l.done {
		l.done, l.err = true, lookup(d.Value, l.paths, l.found[:len(l.paths)])
	}
	if l.err != nil {
		return l.err
	}
	for i := range paths {
		at := slices.IndexFunc(l.paths, func(p path) bool { return p.text == paths[i].text })
		if at < 0 {
			// An extractor within one of the user's own: not foreseen.
			return lookup(d.Value, paths, found)
		}
		found[i] = l.found[at]
	}
	return nil
}

// union adds the paths that are not among them yet, as far as there is room.
func union(all, more []path) []path {
	for _, p := range more {
		if len(all) < maxFields && !slices.ContainsFunc(all, func(o path) bool { return o.text == p.text }) {
			all = append(all, p)
		}
	}
	return all
}
