"""How offers travel to factories: in process, over the streams that this coordinator holds."""
