package program

// Runs is of how many keys the Kind remembers the last run.
func (k *Kind[S, T]) Runs() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runs)
}

func (r Progress) AllStuck() bool { return r.allStuck() }

type LeftError = leftError

var ListLeft = listLeft
