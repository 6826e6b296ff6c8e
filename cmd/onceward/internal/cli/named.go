package cli

import "slices"

// named are letters that somebody asked for by id, and which of them are found.
type named map[string]bool

func newNamed(lists ...[]string) named {
	n := named{}
	for _, id := range slices.Concat(lists...) {
		n[id] = false
	}
	return n
}

// see notes that a letter was found.
func (n named) see(id string) {
	if _, asked := n[id]; asked {
		n[id] = true
	}
}

func (n named) missing() []string {
	var ids []string
	for id, found := range n {
		if !found {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// sayMissing tells which letters were not found. What was done is done in part
// then.
func (a *app) sayMissing(n named) error {
	missing := n.missing()
	for _, id := range missing {
		a.say("%s is not among the letters that match; --state all includes those that are dealt with", id)
	}
	if len(missing) == 0 {
		return nil
	}
	return &exit{code: Partly}
}
