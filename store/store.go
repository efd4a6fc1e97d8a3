package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store/internal/shape"
)

// Store reads and writes the objects of one kind in a [Backend]. It holds no
// state of its own: any number of stores, in any number of processes, may serve
// one kind. It is safe for concurrent use.
type Store[S, T any] struct{ core *core }

// core is a [Store] without its types, so that its methods are compiled once and not for each
// kind. Those of Store only give objects their types.
type core struct {
	backend    Backend
	kind       string
	crypt      *Encryption
	version    int
	convert    []Conversion
	present    []byte // how the encoding of an object of this version begins, mostly
	none       object // a nil object of the types
	fill       func(object)
	validate   func(object) error
	guarded    bool
	precedence precedence
	logger     *slog.Logger
	spec       shape.Shape
	status     shape.Shape
	secret     bool // spec or status has a field tagged tend:"secret"
	code       bool // types in spec or status have methods that JSON, copies or comparisons call
}

// Options sets up a [Store]. Nil and zero fields mean the defaults.
type Options[S, T any] struct {
	// Encryption encrypts what a backend of bytes keeps of an object. Nil means that
	// it is stored as JSON.
	Encryption *Encryption
	// Version is the schema version written with every object. An object with
	// a higher one is read and not written ([ErrNewer]). Zero means 1.
	Version int
	// Convert brings objects that were stored by an earlier version into the form of
	// this one when they are read: Convert[0] from version 1 to 2, Convert[1] from 2
	// to 3, and so on up to Version. Nil means that the forms differ in nothing but
	// new fields. What is read is
	// stored in the new form when it is written next, or by [Rewrite].
	Convert []Conversion
	// Default fills in what the spec leaves out, before Validate, when an object is
	// created and when its spec is written. It may modify the spec; what else it
	// changes is not stored. It must give an object that it has seen before the same
	// spec again, or each write would change the spec. Stored objects are not changed
	// by a new default until their spec is written; for those there is Convert. Nil
	// fills in nothing.
	Default func(*Object[S, T])
	// Validate refuses an object before it is stored, when it is created and
	// when its spec changed; its error reaches the caller, wrapped in
	// [ErrInvalid]. It must not modify the object. Other writes are not
	// asked about, so that a rule made stricter cannot keep an old object
	// from being deleted. Nil accepts everything.
	Validate func(*Object[S, T]) error
	// Precedence are the names of declarers, the strongest first, and "edit" for the edits by persons. A declaration
	// takes over a field that others own if it stands before each of them, and leaves it to them, which is no
	// conflict, if one stands before it. What one that stands before others no longer declares stays as it is, for those
	// behind it to take over. What an owner that is not in it has is [ErrOwned] to others without
	// force, and so is each field of another owner where this is nil.
	Precedence []string
	// RequireGuard refuses every write whose context carries no guard
	// ([ErrUnguarded]); [Store.Unguarded] is for those of operators. Package reconcile/depend, which writes without one, refuses
	// such a store of needed objects.
	RequireGuard bool
	// logger hears of forced removals. Nil means slog.Default at that time.
	logger *slog.Logger
}

// New returns a store for one kind of a backend. S and T are made of types that
// can be copied without sharing memory: basic types, strings, and structs,
// pointers, slices, maps and arrays of them, time.Time, the types of net/netip,
// and any type with a method Clone that returns itself. Anything else is
// [ErrInvalid] naming the field, and so are a nil backend and an impossible
// kind.
//
// On every backend a field that JSON would drop is [ErrInvalid] too: an unexported one, one tagged json:"-", two of one name, a
// complex number, a map whose keys are no texts or integers, one beside an embedded
// field whose MarshalJSON or MarshalText would be that of the whole struct. A type with
// its own MarshalJSON or MarshalText keeps what it likes. See "What can be written" in the
// package comment for values.
func New[S, T any](b Backend, kind string, o *Options[S, T]) (*Store[S, T], error) {
	if o == nil {
		o = &Options[S, T]{}
	}
	c := &core{
		backend: b, kind: kind, version: o.Version, none: (*Object[S, T])(nil),
		crypt: o.Encryption, convert: slices.Clone(o.Convert), guarded: o.RequireGuard, logger: o.logger,
		precedence: slices.Clone(o.Precedence),
	}
	if fill := o.Default; fill != nil {
		c.fill = func(o object) { fill(o.(*Object[S, T])) }
	}
	if validate := o.Validate; validate != nil {
		c.validate = func(o object) error { return validate(o.(*Object[S, T])) }
	}
	spec, err := shape.New[S]("Spec")
	status, errStatus := shape.New[T]("Status")
	return &Store[S, T]{c}, c.init(spec, status, cmp.Or(err, errStatus))
}

func (s *core) init(spec, status shape.Shape, errTypes error) error {
	if s.version == 0 {
		s.version = 1
	}
	if s.backend == nil {
		return fmt.Errorf("%w: store of %q without a backend", ErrInvalid, s.kind)
	}
	if !reflect.TypeOf(s.backend).Comparable() {
		return fmt.Errorf("%w: backend %T cannot be compared; it must be a pointer", ErrInvalid, s.backend)
	}
	if err := CheckKind(s.kind); err != nil {
		return err
	}
	if strings.HasPrefix(s.kind, "_") {
		return fmt.Errorf("%w: kind %q: a leading underscore is reserved", ErrInvalid, s.kind)
	}
	s.present = fmt.Appendf(nil, `{"schema":%d,`, s.version)
	if s.version < 0 {
		return fmt.Errorf("%w: schema version %d of %s", ErrInvalid, s.version, s.kind)
	}
	if err := cmp.Or(s.checkConversions(), s.precedence.check(s.kind)); err != nil {
		return err
	}
	if errTypes != nil {
		return fmt.Errorf("kind %s: %w: %w", s.kind, ErrInvalid, errTypes)
	}
	s.spec, s.status = spec, status
	s.code, s.secret = s.spec.Code() || s.status.Code(), s.spec.Secret() || s.status.Secret()
	return nil
}

// Kind returns the kind that the store is for.
func (s *Store[S, T]) Kind() string { return s.core.kind }

// Encrypted reports whether Options.Encryption was set.
func (s *Store[S, T]) Encrypted() bool { return s.core.crypt != nil }

// RequiresGuard reports whether Options.RequireGuard was set.
func (s *Store[S, T]) RequiresGuard() bool { return s.core.guarded }

// Unguarded returns the same store without Options.RequireGuard, for what is written outside of
// a run, where there is no lease: by an operator, by an API that serves operators, by the
// program that declares the objects. Compare-and-swap protects these writes: Update and
// Delete fail with [ErrConflict] if the object has changed since it was read, and what a run
// has read before such a write it cannot overwrite. Guards in a context hold all the same. A
// reconciler writes by the store itself.
func (s *Store[S, T]) Unguarded() *Store[S, T] {
	if !s.core.guarded {
		return s
	}
	u := *s.core
	u.guarded = false
	return &Store[S, T]{&u}
}

// OwnerOf returns the owner that o is to its children, for their Meta.Owners. o must
// have been read or created: an object without a uid is no owner yet, and a child that
// names it is taken for an orphan.
func (s *Store[S, T]) OwnerOf(o *Object[S, T]) Owner {
	return Owner{Kind: s.core.kind, Key: o.Key(), UID: o.UID}
}

// Backend returns what the store lies on. Two stores of one kind on one backend
// are the same store.
func (s *Store[S, T]) Backend() Backend { return s.core.backend }

// Get returns a copy of the object as of now. A missing object is
// [ErrNotFound], one whose bytes cannot be decoded a [*DecodeError].
func (s *Store[S, T]) Get(ctx context.Context, k Key) (*Object[S, T], error) {
	return typed[S, T](s.core.get(ctx, k))
}

func (s *core) get(ctx context.Context, k Key) (object, error) {
	f, err := s.find(ctx, k)
	if err != nil {
		return nil, err
	}
	return s.own(f)
}

// Decode returns the object of a record of this kind. The object may be shared
// with the backend and every other reader and must not be modified; that is
// what makes a cache over the memory backend cheap. [Store.Clone] gives a copy
// to modify. A record that cannot be decoded is a [*DecodeError].
func (s *Store[S, T]) Decode(r Record) (*Object[S, T], error) {
	f, err := s.core.decode(r)
	return typed[S, T](f.object, err)
}

// Clone returns a copy that shares nothing with o that can be modified. It panics if a
// method Clone of the types does.
func (s *Store[S, T]) Clone(o *Object[S, T]) *Object[S, T] {
	c := *o
	s.core.unshare(&c)
	return &c
}

func (s *core) clone(o object) object {
	c := o.copied()
	s.unshare(c)
	return c
}

// unshare makes a plain copy of an object one that shares nothing with it.
func (s *core) unshare(c object) {
	p := c.parts()
	p.clone()
	*p.conditions = cloneConditions(*p.conditions)
	s.spec.Unshare(p.spec)
	s.status.Unshare(p.status)
}

// SameSpec reports whether the specs are equal. An empty slice or map is equal
// to a nil one, times are equal when they are the same instant. What cannot be compared,
// because a method Equal panics, is not equal.
func (s *Store[S, T]) SameSpec(a, b *Object[S, T]) bool {
	return s.core.same(&s.core.spec, &a.Spec, &b.Spec)
}

// SameStatus reports whether everything that UpdateStatus writes is equal:
// status, conditions, phase and observed generation.
func (s *Store[S, T]) SameStatus(a, b *Object[S, T]) bool {
	return a.Phase == b.Phase && a.ObservedGeneration == b.ObservedGeneration &&
		sameConditions(a.Conditions, b.Conditions) && s.core.same(&s.core.status, &a.Status, &b.Status)
}

// same reports whether two specs, or two statuses, are equal.
func (s *core) same(of *shape.Shape, a, b any) (same bool) {
	if !s.code {
		return of.Equal(a, b)
	}
	err := contain.Apart(func() error { same = of.Equal(a, b); return nil })
	return err == nil && same
}

func (s *core) find(ctx context.Context, k Key) (found, error) {
	r, err := s.backend.Get(ctx, s.kind, k)
	if err != nil {
		return found{}, err
	}
	return s.decode(r)
}

// own returns an object that the caller may modify. The error is a [*DecodeError].
func (s *core) own(f found) (object, error) {
	if f.shared {
		return s.copyOf(f)
	}
	return f.object, nil
}

// copyOf returns a copy of what is stored. The error is a [*DecodeError].
func (s *core) copyOf(f found) (c object, err error) {
	if c, err = s.cloned(f.object); err != nil {
		return nil, s.undecodable(f.record, err)
	}
	return c, nil
}

// cloned is Clone by call. Where no code is the user's, nothing panics.
func (s *core) cloned(o object) (object, error) {
	if s.code {
		return s.clonedApart(o)
	}
	return s.clone(o), nil
}

func (s *core) clonedApart(o object) (c object, err error) {
	err = contain.Apart(func() error { c = s.clone(o); return nil })
	return c, err
}
