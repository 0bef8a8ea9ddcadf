use crate::attack::Attack;

pub(crate) fn attacks() -> Vec<Attack> {
    Vec::new()
}
