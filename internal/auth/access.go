package auth

import "seatflow"

// Action is something that a caller may be allowed to do.
type Action uint8

// The actions. ActionPublic needs no token at all.
const (
	ActionPublic       Action = iota // read shows, plans, maps and events
	ActionOrderCreate                // hold seats
	ActionOrderRead                  // read one's own orders
	ActionOrderReadAny               // read anybody's
	ActionOrderChange                // cancel or extend one's own order
	ActionOrderPay                   // begin to pay for one's own order
	ActionOrderRefund                // give back paid seats
	ActionSeatsBlock                 // block seats, list and release blocks
	ActionHouseRead                  // halls and exported plans
	ActionHouseWrite                 // halls, plans and shows
	ActionPaymentsRead               // captures without an order
	ActionShowRebuild                // rebuild a show's view
	ActionVerify                     // check what must always hold
	ActionReconcile                  // hold views against the facts and repair them
	actionCount
)

var actionNames = [actionCount]string{
	"public", "order.create", "order.read", "order.read_any", "order.change", "order.pay", "order.refund",
	"seats.block", "house.read", "house.write", "payments.read", "show.rebuild", "verify", "reconcile",
}

// String returns the name of the action, for documents and logs.
func (a Action) String() string {
	if a < actionCount {
		return actionNames[a]
	}
	return "invalid"
}

// Actions lists every action.
func Actions() []Action {
	all := make([]Action, actionCount)
	for i := range all {
		all[i] = Action(i)
	}
	return all
}

// roleSet is a set of roles, one bit each.
type roleSet uint8

const (
	buyer roleSet = 1 << iota
	kiosk
	staff
	admin

	everybody = buyer | kiosk | staff | admin
	theHouse  = staff | admin
)

// access is the whole table. An action that is missing here is allowed to
// nobody.
var access = [actionCount]roleSet{
	ActionPublic:       everybody,
	ActionOrderCreate:  everybody,
	ActionOrderRead:    everybody,
	ActionOrderReadAny: theHouse,
	ActionOrderChange:  everybody,
	ActionOrderPay:     everybody,
	ActionOrderRefund:  theHouse,
	ActionSeatsBlock:   theHouse,
	ActionHouseRead:    theHouse,
	ActionHouseWrite:   theHouse,
	ActionPaymentsRead: theHouse,
	ActionShowRebuild:  admin,
	ActionVerify:       admin,
	ActionReconcile:    theHouse,
}

// bit returns the role's place in a set, and 0 for a role that is unknown.
func bit(role seatflow.Role) roleSet {
	switch role {
	case seatflow.RoleBuyer:
		return buyer
	case seatflow.RoleKiosk:
		return kiosk
	case seatflow.RoleStaff:
		return staff
	case seatflow.RoleAdmin:
		return admin
	}
	return 0
}

// Allowed reports whether a role may take an action. It is the only place
// that decides so.
func Allowed(role seatflow.Role, action Action) bool {
	return action < actionCount && access[action]&bit(role) != 0
}

// Roles lists the roles that may take an action, from the least to the most.
func Roles(action Action) []seatflow.Role {
	var roles []seatflow.Role
	for _, r := range [...]seatflow.Role{seatflow.RoleBuyer, seatflow.RoleKiosk, seatflow.RoleStaff, seatflow.RoleAdmin} {
		if Allowed(r, action) {
			roles = append(roles, r)
		}
	}
	return roles
}

// KnownRole reports whether role is one of the table's.
func KnownRole(role seatflow.Role) bool { return bit(role) != 0 }
