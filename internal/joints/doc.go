// Package joints tests what holds where two capabilities meet that are each tested alone: an
// object of a newer version and a prune, a panic of the user's types and a cache.
package joints
